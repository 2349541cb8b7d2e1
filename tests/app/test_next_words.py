"""Next words of several models as data and as bars; a click appends one."""

from __future__ import annotations

import re
from copy import deepcopy
from dataclasses import replace

import pytest
import tiny_causal
import tiny_shown
import torch

import unbottle
from unbottle.app import predictions
from unbottle.app.predictions import (
    EXAMPLES,
    TEXT,
    NextWord,
    NextWords,
    appendable,
    appended,
    examples,
    next_words,
    token_places,
    with_base,
)
from unbottle.app.render import next_word_bars

PROMPT = "The king and the woman"


def test_words_and_partitions_are_those_of_explain() -> None:
    plain, cpr = next_words(tiny_shown.causal(), PROMPT, words=9)
    told = unbottle.explain(tiny_shown.causal()[1].model, tiny_shown.spelling(), PROMPT, top=9)
    assert [(word.id, word.partition) for word in cpr.words] == [(w.id, w.partition) for w in told.words]
    assert cpr.masses == told.masses
    assert {word.partition for word in plain.words} == {"softmax"}
    assert plain.masses == {"softmax": 1.0}
    assert (plain.method, cpr.method) == ("no head", "Softmax + CPR:3,9 + Mi")


def test_a_space_at_the_end_belongs_to_the_next_word() -> None:
    models = tiny_shown.causal()
    assert next_words(models, PROMPT + "  ") == next_words(models, PROMPT)


def test_the_knob_moves_heads_and_nothing_stays_turned() -> None:
    models = tiny_shown.causal()
    before, after = next_words(models, PROMPT), next_words(models, PROMPT, copy_bias=5)
    assert before[0].words == after[0].words
    copied = [each[1].masses["PD"] for each in (before, after)]
    assert copied[1] > copied[0]
    assert next_words(models, PROMPT) == before


def test_a_model_that_copies_nothing_says_so_beside_one_that_copies() -> None:
    """The setup that the demo recommends: a softmax head beside a CPR head."""
    models = tiny_shown.softmax_beside_cpr()
    before, after = next_words(models, PROMPT), next_words(models, PROMPT, copy_bias=5)
    assert before[0].words == after[0].words
    assert before[1].words != after[1].words
    note = "Copy bias: not applied, because this model&#39;s output layer copies no words."
    assert next_word_bars(PROMPT, before).count(note) == 0
    assert next_word_bars(PROMPT, after).count(note) == 1
    assert [each.note != "" for each in after] == [True, False]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"text": " "}, "empty"),
        ({"text": "a" * (TEXT + 1)}, "2,001 characters"),
        ({"text": "a b " * 200}, "too long for a model that reads 256"),
        ({"text": PROMPT, "words": 10**6}, "words 1000000: expected a number from 3 to 20"),
        ({"text": PROMPT, "copy_bias": float("nan")}, "copy bias nan: expected a number from -10 to 10"),
    ],
)
def test_refusals(asked: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        next_words(tiny_shown.causal(), **asked)


# -- the base model, and what the others change


def test_heads_on_one_backbone_bring_the_model_under_them() -> None:
    softmax, cpr = tiny_shown.softmax_beside_cpr()
    base, *others = with_base([softmax, cpr])
    assert others == [softmax, cpr]
    assert (base.name, base.method, base.copies) == ("base model", "no head", False)
    plain = tiny_shown.causal()[0]  # the same seed, and never had a head
    assert next_words([base], PROMPT)[0].words == next_words([plain], PROMPT)[0].words
    assert base.model.transformer.wte.weight is softmax.model.transformer.wte.weight
    assert softmax.head is not None
    assert unbottle.explain(softmax.model, softmax.tokenizer, PROMPT).method == "softmax"


def test_no_base_where_it_is_shown_already_or_not_shared() -> None:
    plain, cpr = tiny_shown.causal()
    size = cpr.model.config.vocab_size
    other = replace(cpr, model=tiny_causal.model("softmax", size, seed=1))
    for models in ([plain], [plain, cpr], [cpr, other], [*tiny_shown.encoder_decoder()]):
        assert with_base(models) == models
    elsewhere = replace(plain, model=tiny_causal.model("plain", size, seed=1))
    assert [shown.name for shown in with_base([elsewhere, cpr])] == ["base model", "plain", "cpr"]


def test_a_base_model_is_called_without_the_hash_of_the_cache() -> None:
    shown = replace(tiny_shown.causal()[1], model=deepcopy(tiny_shown.causal()[1].model))
    shown.model.config.base_model_name_or_path = "cache/SmolLM2-135M-Instruct-bcc81830"
    assert with_base([shown])[0].name == "SmolLM2-135M-Instruct"


def test_a_base_model_is_called_what_the_head_was_attached_to() -> None:
    shown = replace(tiny_shown.causal()[1], model=deepcopy(tiny_shown.causal()[1].model))
    shown.model.config.base_model_name_or_path = "/somewhere/models/smollm2"
    assert with_base([shown])[0].name == "smollm2"


def test_every_word_knows_its_probability_in_the_first_model(monkeypatch: pytest.MonkeyPatch) -> None:
    models = tiny_shown.causal()
    plain, cpr = next_words(models, PROMPT, words=20)
    assert all(word.before == word.probability for word in plain.words)
    there = {word.id: word.probability for word in plain.words}
    assert any(word.id in there for word in cpr.words)
    assert all(word.before == there[word.id] for word in cpr.words if word.id in there)
    assert plain.gained == 0 < cpr.gained < 1
    monkeypatch.setattr(predictions, "COMPARED", 20)
    assert any(word.before is None for word in next_words(models, PROMPT, words=20)[1].words)


def test_examples_start_where_the_models_differ_most() -> None:
    models = tiny_shown.causal()
    gains = [next_words(models, text, words=20)[1].gained for text in examples(models)]
    assert gains == sorted(gains, reverse=True)
    assert gains[0] > gains[-1]
    assert examples(models[:1]) == [*EXAMPLES]
    assert {*examples(models)} == {*EXAMPLES}


def test_a_word_that_was_copied_says_from_where() -> None:
    text = "The king and the woman and the king"
    softmax, cpr = next_words(tiny_shown.softmax_beside_cpr(), text, words=20, copy_bias=10)
    assert not any(word.places for word in softmax.words)
    copied = [word for word in cpr.words if word.partition == "PD"]
    assert copied
    for word in copied:
        assert {text[start:end] for start, end in word.places} == {word.text.strip()} - {""}  # a space has no place
    assert all(word.places == () for word in cpr.words if word.partition != "PD")


def test_places_of_tokens() -> None:
    tokenizer = tiny_shown.spelling()
    text = "é and  é"
    (word,) = tokenizer(" and")["input_ids"]
    assert token_places(tokenizer, text)[word] == [(2, 5)]
    assert all(text[start:end].strip() for places in token_places(tokenizer, text).values() for start, end in places)


def test_changes_are_marked() -> None:
    first = column(word("a", 0.5, before=0.5, id=1), model="base")
    words = [
        word("a", 0.25, before=0.5, id=1),
        word("b", 0.2, id=2),
        word("c", 0.1, before=0.05, places=((3, 7), (9, 10))),
    ]
    html = next_word_bars("the text ", [first, column(*words)])
    marks = re.findall(r'<span class="ub-changed" title="([^"]+)">([^<]+)</span>', html)
    assert marks == [
        ("50.0% in base", "▼ 25.0"),
        ("Not among the 100 most likely words of base", "new"),
        ("5.0% in base", "▲ 5.0"),
    ]
    assert re.findall(r"--ub-was: ([\d.]+)%", html) == ["100.0", "10.0"]
    assert re.findall(r'data-places="([^"]*)"', html) == ["3-7 9-10 "]
    assert 'data-text="the text"' in html
    assert "than in base, whose bar ends at" in html
    assert 'title="words of the context"' in html


# -- a click


def test_a_click_appends_what_the_token_spells() -> None:
    tokenizer = tiny_shown.spelling()
    (word,) = tokenizer(" and")["input_ids"]
    assert appended(tiny_shown.causal(), "The king ", model=1, word=word) == "The king and"


def test_what_a_token_adds_depends_on_the_text() -> None:
    """This one spells no space before a word by itself, as SentencePiece does."""

    class Spaces:
        all_special_ids = (0,)

        def __len__(self) -> int:
            return 3

        def __call__(self, text: str, **_) -> dict:
            return {"input_ids": [["</s>", "the", "king"].index(word) for word in text.split()]}

        def decode(self, ids: list[int], **_) -> str:
            return " ".join(["", "the", "king"][i] for i in ids)

    models = [replace(tiny_shown.causal()[0], tokenizer=Spaces())]
    assert appended(models, "the", model=0, word=2) == "the king"


@pytest.mark.parametrize("clicked", [(2, 5), (-1, 5), (None, 5), ("0", 5), (0, None), (0, "king"), (True, 5)])
def test_clicks_on_nothing(clicked: tuple) -> None:
    model, word = clicked
    with pytest.raises(ValueError, match="That word is of no model here"):
        appended(tiny_shown.causal(), "The", model=model, word=word)


def test_an_id_beyond_the_tokenizer_has_no_text() -> None:
    tokenizer = tiny_shown.spelling()
    beyond = len(tokenizer)
    assert not appendable(tokenizer, beyond, f"[{beyond}]")
    with pytest.raises(ValueError, match=f"Token {beyond} has no text"):
        appended(tiny_shown.causal(), "The", model=0, word=beyond)


def test_what_can_not_be_appended() -> None:
    tokenizer = tiny_shown.spelling()
    (half,) = (i for i in tokenizer("é")["input_ids"][:1])
    assert not appendable(tokenizer, half, tokenizer.decode([half]))
    assert not appendable(tokenizer, tokenizer.eos_token_id, "<end>")
    assert appendable(tokenizer, tokenizer("a")["input_ids"][0], "a")


def test_ids_beyond_the_tokenizer_are_shown_and_disabled() -> None:
    shown = tiny_shown.causal()[0]
    beyond = len(tiny_shown.spelling()) + 2
    weight = shown.model.get_output_embeddings().weight
    with torch.no_grad():
        kept = weight[beyond].clone()
        weight[beyond] = 40 * shown.model.transformer(torch.tensor([shown.tokenizer(PROMPT)["input_ids"]]))[0][0, -1]
    try:
        (found,) = next_words([shown], PROMPT)
    finally:
        with torch.no_grad():
            weight[beyond] = kept
    assert found.words[0].text == f"[{beyond}]"
    assert re.search(rf'data-word="{beyond}"[^>]* disabled', next_word_bars("p", [found]))


# -- bars


def column(*words: NextWord, model: str = "m") -> NextWords:
    masses = {"V": 0.25, "C": 0.75, "R1": 0.0}
    return NextWords(model=model, method="softmax+c", words=[*words], masses=masses)


def word(text: str, probability: float = 0.5, partition: str = "C", id: int = 1, **others) -> NextWord:
    return NextWord(id=id, text=text, probability=probability, partition=partition, **others)


def test_bars_have_one_scale_and_every_word_its_label() -> None:
    html = next_word_bars("p", [column(word(" king", 0.5), word("x", 0.25, "V", id=2)), column(word("y", 0.125, id=3))])
    assert re.findall(r"--ub-share: ([\d.]+)%", html) == ["100.0", "50.0", "25.0"]
    assert re.findall(r'data-model="(\d)" data-word="(\d)"', html) == [("0", "1"), ("0", "2"), ("1", "3")]
    assert re.findall(r'class="ub-percent">([^<]+)<', html) == ["50.0%", "25.0%", "12.5%"]
    row = re.search(r'(?s)data-word="2".*?</button>', html).group()
    assert ">V</span>" in row
    assert "var(--ub-v)" in row
    assert "All words: V 25.0%, C 75.0%<" in html
    assert html.count('<li><span class="ub-chip"') == 2  # the legend: C and V


def test_everything_is_escaped() -> None:
    nasty = "<script>alert('1')</script>\"&"
    html = next_word_bars("p", [column(word(nasty, partition=nasty), model=nasty)])
    assert "<script" not in html
    assert "'1'" not in html
    assert html.count("&lt;script&gt;") >= 4  # the model, the word, its label, the chip
