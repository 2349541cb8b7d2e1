"""Next words of several models as data and as bars; a click appends one."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import tiny_shown
import torch

import unbottle
from unbottle.app.predictions import TEXT, NextWords, appendable, appended, next_words
from unbottle.app.render import next_word_bars
from unbottle.eval.next_words import Probed, ProbedWord

PROMPT = "The king and the woman"


def test_words_and_partitions_are_those_of_explain() -> None:
    plain, cpr = next_words(tiny_shown.causal(), PROMPT, words=9)
    told = unbottle.explain(tiny_shown.causal()[1].model, tiny_shown.spelling(), PROMPT, top=9)
    assert [(word.id, word.partition) for word in cpr.probed.words] == [(w.id, w.partition) for w in told.words]
    assert cpr.probed.masses == told.masses
    assert {word.partition for word in plain.probed.words} == {"softmax"}
    assert plain.probed.masses == {"softmax": 1.0}


def test_a_space_at_the_end_belongs_to_the_next_word() -> None:
    models = tiny_shown.causal()
    assert next_words(models, PROMPT + "  ")[0].probed.words == next_words(models, PROMPT)[0].probed.words


def test_the_knob_moves_heads_and_nothing_stays_turned() -> None:
    models = tiny_shown.causal()
    before, after = next_words(models, PROMPT), next_words(models, PROMPT, copy_bias=5)
    assert before[0].probed == after[0].probed
    copied = [each[1].probed.masses["PD"] for each in (before, after)]
    assert copied[1] > copied[0]
    assert next_words(models, PROMPT) == before


def test_a_model_that_copies_nothing_says_so_beside_one_that_copies() -> None:
    """The setup that the demo recommends: a softmax head beside a CPR head."""
    models = tiny_shown.softmax_beside_cpr()
    before, after = next_words(models, PROMPT), next_words(models, PROMPT, copy_bias=5)
    assert before[0].probed == after[0].probed
    assert before[1].probed != after[1].probed
    note = "Copy bias: not applied, because this model&#39;s output layer copies no words."
    assert next_word_bars(before).count(note) == 0
    assert next_word_bars(after).count(note) == 1
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
    assert found.probed.words[0].text == f"[{beyond}]"
    assert re.search(rf'data-word="{beyond}"[^>]* disabled', next_word_bars([found]))


# -- bars


def probed(*words: ProbedWord, model: str = "m") -> NextWords:
    found = Probed(model=model, method="softmax+c", prompt="p", words=words, masses={"V": 0.25, "C": 0.75, "R1": 0.0})
    return NextWords(probed=found, appendable=frozenset(word.id for word in words))


def word(text: str, probability: float = 0.5, partition: str = "C", id: int = 1) -> ProbedWord:
    return ProbedWord(id=id, text=text, probability=probability, partition=partition)


def test_bars_have_one_scale_and_every_word_its_label() -> None:
    html = next_word_bars([probed(word(" king", 0.5), word("x", 0.25, "V", id=2)), probed(word("y", 0.125, id=3))])
    assert re.findall(r"--ub-share: ([\d.]+)%", html) == ["100.0", "50.0", "25.0"]
    assert re.findall(r'data-model="(\d)" data-word="(\d)"', html) == [("0", "1"), ("0", "2"), ("1", "3")]
    assert re.findall(r'class="ub-percent">([^<]+)<', html) == ["50.0%", "25.0%", "12.5%"]
    row = re.search(r'data-word="2".*?</button>', html).group()
    assert ">V</span>" in row
    assert "var(--ub-v)" in row
    assert "All words: V 25.0%, C 75.0%<" in html
    assert html.count('<li><span class="ub-chip"') == 2  # the legend: C and V


def test_everything_is_escaped() -> None:
    nasty = "<script>alert('1')</script>\"&"
    html = next_word_bars([probed(word(nasty, partition=nasty), model=nasty)])
    assert "<script" not in html
    assert "'1'" not in html
    assert html.count("&lt;script&gt;") >= 4  # the model, the word, its label, the chip
