"""Tokens, parts and windows."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from byte_pairs import byte_pairs
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import processors

from unbottle.data import StreamedWindows, Windows, split, tokens, tokens_of
from unbottle.data.sources import cut

TEXT = "The king of France met Anna in Paris.  She \n\n met the queen,\tand Anna again . \n"


@given(st.text(alphabet="ab \n\t.", max_size=80), st.integers(1, 20))
def test_pieces_are_the_text(text: str, size: int) -> None:
    pieces = cut(text, size)
    assert "".join(pieces) == text
    for before, after in itertools.pairwise(pieces):
        assert len(before) >= size
        assert not before[-1].isspace()
        assert after[0].isspace()


def test_a_long_text_is_tokenised_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = byte_pairs()
    whole = tokenizer(TEXT * 20, add_special_tokens=False, verbose=False)["input_ids"]
    monkeypatch.setattr(tokens, "PIECE", 5)
    monkeypatch.setattr(tokens, "PIECES_PER_CALL", 3)
    found = tokens_of([{"text": TEXT * 20}], tokenizer)
    assert found.tolist() == whole
    assert found.dtype == np.int32


def test_texts_are_joined_by_nothing(caplog) -> None:
    """By no special token either, where a tokenizer puts one at the start of each text."""
    tokenizer = byte_pairs()
    start = processors.TemplateProcessing(single="<eos> $A", special_tokens=[("<eos>", 0)])
    tokenizer.backend_tokenizer.post_processor = start
    assert tokenizer("the")["input_ids"][0] == 0
    tokenizer.model_max_length = 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = tokens_of([{"text": "the king"}, {"text": ""}, {"text": " met Anna"}], tokenizer)
    assert tokenizer.decode(found) == "the king met Anna"
    assert "longer than" not in caplog.text
    assert len(tokens_of([], tokenizer)) == 0


def test_split() -> None:
    parts = split(np.arange(1000))
    assert [*parts] == ["train", "valid", "test"]
    assert [len(part) for part in parts.values()] == [960, 20, 20]
    assert np.concatenate([*parts.values()]).tolist() == [*range(1000)]
    with pytest.raises(ValueError, match="three of them"):
        split(np.arange(10), (0.5, 0.6, 0.1))


@given(st.integers(2, 60), st.integers(2, 12), st.integers(1, 12) | st.none(), st.booleans())
def test_windows(count: int, length: int, stride: int | None, whole: bool) -> None:
    """Every window by hand: from each start, as long as there are tokens for it."""
    step = stride or length
    wanted = [[*range(start, min(start + length, count))] for start in range(0, count, step)]
    wanted = [window for window in wanted if len(window) >= (length if whole else 2)]
    if not whole:  # the first window that reaches the end is the last
        ends = [number for number, window in enumerate(wanted) if window[-1] == count - 1]
        wanted = wanted[: ends[0] + 1] if ends else wanted
    if not wanted:
        with pytest.raises(ValueError, match="too short"):
            Windows(np.arange(count), length, stride, whole=whole)
        return
    windows = Windows(np.arange(count), length, stride, whole=whole)
    assert len(windows) == len(wanted)
    assert [window["input_ids"].tolist() for window in windows] == wanted
    assert all(window["labels"].equal(window["input_ids"]) for window in windows)


def test_short_texts_and_lengths() -> None:
    with pytest.raises(ValueError, match=r"the text is 5 tokens long, too short for a window of 9\. Give more text\."):
        Windows(np.arange(5), 9, whole=True)
    with pytest.raises(ValueError, match="the text is 1 tokens long, too short for a word and the one after it"):
        Windows(np.arange(1), 9)
    with pytest.raises(ValueError, match="length 1: a window needs at least 2 tokens"):
        Windows(np.arange(5), 1)
    with pytest.raises(ValueError, match="stride -1"):
        Windows(np.arange(5), 2, -1)


def test_windows_know_each_other() -> None:
    one = Windows(np.arange(50), 7)
    assert one.fingerprint() == Windows(np.arange(50, dtype=np.int32), 7).fingerprint()
    others = [
        Windows(np.arange(51), 7),
        Windows(np.arange(50), 8),
        Windows(np.arange(50), 7, 3),
        Windows(np.ones(50), 7),
    ]
    assert len({one.fingerprint(), *(other.fingerprint() for other in others)}) == 5


def test_a_stream_has_the_windows_of_the_text_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "PIECE", 9)
    tokenizer = byte_pairs()
    texts = [{"text": TEXT}, {"text": TEXT[:30]}]
    wanted = [window["input_ids"].tolist() for window in Windows(tokens_of(texts, tokenizer), 8, whole=True)]
    for given_texts in (texts, lambda: iter(texts)):
        stream = iter(StreamedWindows(given_texts, tokenizer, 8))
        assert [next(stream)["input_ids"].tolist() for _ in range(2 * len(wanted))] == wanted * 2
    with pytest.raises(ValueError, match="the text is shorter than a window of 800 tokens"):
        next(iter(StreamedWindows(texts, tokenizer, 800)))
