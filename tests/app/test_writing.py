"""What models write, and what of it is marked as copied."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import tiny_shown
import tiny_summaries

from unbottle.app.predictions import Written, continued, summarized
from unbottle.app.render import copied_words, shared_words
from unbottle.eval.generation import Decoding, continuations, predictions

PROMPT = "The king and the woman"
DOCUMENT = "the king of France met Anna in Paris and said that she should go to London"


def keys(text: str, other: str) -> list[str]:
    return [word.key for word in shared_words(text, other)]


def test_shared_words() -> None:
    assert keys("A King spoke.", "the king, the queen") == ["king"]
    assert keys("the dog of Paris", "the cat of Paris") == ["of", "paris"]  # "the" alone says nothing
    assert keys("of", "of") == []
    assert keys("", "a b") == []
    text = "Zürich, ZÜRICH"
    assert [text[word.start : word.end] for word in shared_words(text, "zürich")] == ["Zürich", "ZÜRICH"]


def written(text: str, model: str = "cpr") -> Written:
    return Written(model=model, method="softmax+c", text=text)


def marks(html: str) -> list[str]:
    return [re.sub("<[^>]+>", "", mark) for mark in re.findall(r"<mark title.*?</mark>", html)]


def test_copied_words_are_marked_in_both() -> None:
    html = copied_words("The king met Anna.", [written("Anna went home")])
    assert marks(html) == ["Anna", "Anna"]
    assert "Copied by cpr" in html


def test_where_nothing_was_copied_it_says_so() -> None:
    html = copied_words("The king met Anna.", [written("nobody went home")])
    assert "<mark" not in html
    assert "Nothing is marked: no word was copied so far." in html


def test_of_several_models_the_source_says_which() -> None:
    html = copied_words("Anna met Peter.", [written("Anna", "one"), written("Peter and Anna", "two")], ["three"])
    assert marks(html) == ["Anna", "Peter", "Anna", "Anna1 2", "Peter2"]
    assert "<h3>three</h3><p>writing…</p>" in html
    assert "<h3><sup>2</sup> two " in html


def test_everything_is_escaped() -> None:
    nasty = "<script>alert('script')</script> & \"more\""
    html = copied_words(nasty, [Written(model=nasty, method=nasty, text=nasty, note=nasty)], [nasty])
    assert "<script" not in html
    assert "script" in marks(html)
    assert "'" not in html


def test_continuations_are_those_of_each_model() -> None:
    models = tiny_shown.causal()
    found = [*continued(models, PROMPT + " ", words=5, top_k=7, seed=3)]
    for shown, each in zip(models, found, strict=True):
        alone = continuations(shown.model, shown.tokenizer, [PROMPT], words=5, top_k=7, seed=3)
        assert (each.model, each.method, [each.text]) == (shown.name, shown.method, alone)
    assert found[0].text != found[1].text


def test_knobs_are_back_whenever_something_was_written() -> None:
    plain, cpr = tiny_shown.causal()
    for _ in continued([cpr, plain], PROMPT, words=2, copy_bias=3):
        assert not cpr.model.knobs.turned
    shown = tiny_shown.encoder_decoder()[0]
    for _ in summarized([shown], DOCUMENT, tokens=8, copy_bias=3, source_only=True):
        assert not shown.model.knobs.turned


def test_a_model_that_copies_nothing_says_so_beside_one_that_copies() -> None:
    models = tiny_shown.softmax_beside_cpr()
    before, after = ([*continued(models, PROMPT, words=5, copy_bias=bias)] for bias in (0, -9))
    assert before[0].text == after[0].text
    assert before[1].text != after[1].text
    assert [each.note for each in before] == ["", ""]
    assert "Copy bias: not applied" in after[0].note
    assert after[1].note == ""


def test_a_summarizer_that_copies_nothing_says_so() -> None:
    shown = replace(tiny_shown.encoder_decoder()[0], model=tiny_summaries.model("t5", "softmax", shake=0.3).eval())
    (made,) = summarized([shown], DOCUMENT, tokens=8, copy_bias=3, source_only=True)
    assert "Copy bias and Only words of the document: not applied" in made.note


def test_summaries_are_those_of_each_model() -> None:
    models = tiny_shown.encoder_decoder()
    (found,) = summarized(models, DOCUMENT, sampling="greedy", tokens=9)
    decoding = Decoding(sampling="greedy", max_length=9)
    (alone,) = predictions(models[0].model, models[0].tokenizer, [DOCUMENT], decoding)
    assert found.text == alone.text != ""


def test_only_words_of_the_document() -> None:
    (free,) = summarized(tiny_shown.encoder_decoder(), DOCUMENT, tokens=20)
    (bound,) = summarized(tiny_shown.encoder_decoder(), DOCUMENT, tokens=20, source_only=True)
    assert not {*free.text.split()} <= {*DOCUMENT.split()}
    assert {*bound.text.split()} <= {*DOCUMENT.split()}


def test_what_was_not_read_is_said() -> None:
    (found,) = summarized(tiny_shown.encoder_decoder(), "Anna " * 1500, tokens=8)
    assert found.note.endswith("The last 477 tokens of the document were not read.")


@pytest.mark.parametrize(
    ("function", "models", "asked", "said"),
    [
        (continued, tiny_shown.causal, {"text": ""}, "empty"),
        (continued, tiny_shown.causal, {"text": "a", "words": 101}, "new words 101: expected a number from 1 to 100"),
        (continued, tiny_shown.causal, {"text": "a", "seed": -1}, "seed -1"),
        (continued, tiny_shown.causal, {"text": "a", "top_k": 0}, "top k 0"),
        (summarized, tiny_shown.encoder_decoder, {"source": "a " * 11_000}, "The document has 22,000 characters"),
        (summarized, tiny_shown.encoder_decoder, {"source": "a", "tokens": 1000}, "tokens 1000"),
        (summarized, tiny_shown.encoder_decoder, {"source": "a", "sampling": "guess"}, "sampling 'guess': unknown"),
    ],
)
def test_refusals(function, models, asked: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        next(function(models(), **asked))
