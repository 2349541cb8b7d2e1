"""The next words of several models, side by side."""

from __future__ import annotations

import pytest
import tiny_causal
import torch

import unbottle
from unbottle.eval.next_words import PROMPTS, Prompt, probe

TOKENIZER = tiny_causal.tokenizer([str(prompt) for prompt in PROMPTS] * 3)
MODELS = {method: tiny_causal.model(method, len(TOKENIZER)) for method in tiny_causal.METHODS}


@pytest.mark.parametrize("method", tiny_causal.METHODS)
def test_words_are_the_most_likely_of_the_model(method: str) -> None:
    text = "I like tennis and"
    (found,) = probe({"it": MODELS[method]}, TOKENIZER, [text], k=7).found
    with torch.no_grad():
        logits = MODELS[method](torch.tensor([TOKENIZER(text)["input_ids"]])).logits[0, -1]
    probability = logits.double().softmax(0).tolist()
    best = sorted(range(len(probability)), key=lambda word: -probability[word])[:7]
    assert [word.text for word in found.words] == [TOKENIZER.decode([word]) for word in best]
    assert [word.probability for word in found.words] == pytest.approx([probability[word] for word in best], rel=1e-4)


def test_partitions_are_those_that_explain_tells() -> None:
    cpr = "softmax+cpr:3,9+mi"
    found = probe(MODELS, TOKENIZER, ["I like tennis and"], k=9).found
    by_model = {probed.model: probed for probed in found}
    told = unbottle.explain(MODELS[cpr], TOKENIZER, "I like tennis and", top=9)
    assert [word.partition for word in by_model[cpr].words] == [word.partition for word in told.words]
    assert len({word.partition for word in by_model[cpr].words}) > 1
    assert {word.partition for word in by_model["plain"].words} == {"softmax"}
    assert [by_model[name].method for name in MODELS] == ["softmax", *tiny_causal.METHODS[1:]]


def test_the_default_prompts_and_every_model_in_order() -> None:
    found = probe(MODELS, TOKENIZER).found
    assert [(p.prompt, p.model) for p in found] == [(str(prompt), name) for prompt in PROMPTS for name in MODELS]
    assert all(len(probed.words) == 5 for probed in found)


def test_a_tokenizer_for_each_model() -> None:
    other = tiny_causal.tokenizer(["a quite different text"])
    models = {"one": MODELS["plain"], "two": tiny_causal.model("plain", len(other))}
    both = probe(models, {"one": TOKENIZER, "two": other}, ["I like"]).found
    alone = probe({"two": models["two"]}, other, ["I like"]).found
    assert both[1] == alone[0]


def test_the_table_has_a_column_for_each_model() -> None:
    lines = str(probe({"a": MODELS["plain"], "b": MODELS["ps"]}, TOKENIZER, ["I like", "Mary"], k=3)).splitlines()
    assert [lines[0], lines[5], lines[6]] == ["I like", "", "Mary"]
    place = lines[1].index("b (ps)")
    assert lines[1].index("a (softmax)") == 2
    for line in lines[2:5]:
        assert line[place - 1] == " "
        assert line[place] == "'"
        assert line.count("softmax") == 1
    assert len(lines) == 11


def test_the_models_mode_comes_back() -> None:
    model = tiny_causal.model("plain", len(TOKENIZER)).train()
    assert probe({"it": model}, TOKENIZER, ["I like"]) == probe({"it": model}, TOKENIZER, ["I like"])
    assert model.training


def test_refusals() -> None:
    for method in ("plain", "ps"):
        with pytest.raises(ValueError, match="k=0: expected 1 to"):
            probe({"it": MODELS[method]}, TOKENIZER, ["I like"], k=0)
        with pytest.raises(ValueError, match="too long for a model that reads 256"):
            probe({"it": MODELS[method]}, TOKENIZER, ["I like " * 200])
        with pytest.raises(ValueError, match="has no token"):
            probe({"it": MODELS[method]}, TOKENIZER, [""])
    with pytest.raises(ValueError, match="no model to probe"):
        probe({}, TOKENIZER)


# -- prompts


def test_the_prompts_of_the_paper() -> None:
    assert str(PROMPTS[0]).startswith("There are plates, keys, scissors, toys, and balloons in front of me")
    assert [len(prompt.options) for prompt in PROMPTS] == [5, 5, 4, 2]
    assert [prompt.repeats for prompt in PROMPTS] == [True, True, False, True]
    assert str(PROMPTS[2]) == "I like tennis, baseball, golf, basketball, and"


def test_options_in_brackets_change_places() -> None:
    prompt = Prompt.parse("[tea] or [hot milk]? I take ")
    assert prompt.options == ("tea", "hot milk")
    assert str(prompt) == "tea or hot milk? I take"
    assert prompt.text(("hot milk", "tea")) == "hot milk or tea? I take"
    assert Prompt.parse("nothing to choose").options == ()
    assert not Prompt.parse("[-a], [-b] and").repeats
    assert all(Prompt.parse(prompt.marked()) == prompt for prompt in PROMPTS)


@pytest.mark.parametrize(
    ("text", "message"),
    [(" ", "has no text"), ("[ ] or [b]", "an empty option"), ("[a] or [-b]", "mixes"), ("[a] or [a]", "twice")],
)
def test_prompts_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Prompt.parse(text)
