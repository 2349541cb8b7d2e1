"""Perplexity and its groups equal what a few lines with loops and sets compute."""

from __future__ import annotations

import json
import math

import pytest
import torch
from byte_pairs import TEXT, byte_pairs
from hypothesis import given
from hypothesis import strategies as st
from models import VOCABULARY, shaken, tiny
from torch.nn.functional import cross_entropy

from unbottle.eval import Overlapping, perplexity
from unbottle.eval.perplexity import likely_tokens
from unbottle.eval.proper_nouns import token_spans, tokens_of_words
from unbottle.hf import attach

METHODS = [None, "softmax+cpr:5,20+mi", "mos:2", "pg", "ps+mi", "s+c+wbwr:5"]
NUMBER = 53  # tokens: five windows of ten, and three more


def model_of(method: str | None):
    model = tiny("gpt2")
    torch.manual_seed(0)
    return model if method is None else shaken(attach(model, method))


def tokens(number: int = NUMBER, words: int = 30) -> torch.Tensor:
    return torch.randint(3, 3 + words, (number,), generator=torch.Generator().manual_seed(number))


def cut(ids: torch.Tensor, length: int = 10) -> list[dict[str, torch.Tensor]]:
    return [{"input_ids": part, "labels": part.clone()} for part in ids.split(length)]


@torch.no_grad()
def by_hand(model, ids: torch.Tensor, length: int) -> tuple[float, int]:
    """The whole evaluation again: one window at a time, one cross entropy each."""
    model.eval()
    total, count = 0.0, 0
    for start in range(0, len(ids), length):
        window = ids[start : start + length]
        if len(window) > 1:
            logits = model(window[None]).logits[0, :-1]
            total += cross_entropy(logits.double(), window[1:], reduction="sum").item()
            count += len(window) - 1
    return math.exp(total / count), count


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("batch", [1, 4])
def test_ten_lines_by_hand(method: str | None, batch: int) -> None:
    model = model_of(method)
    found = perplexity(model, cut(tokens()), batch=batch, k=5)
    want, count = by_hand(model, tokens(), 10)
    assert found.perplexity == pytest.approx(want, abs=1e-4)
    assert found.tokens == count == 5 * 9 + 2
    assert found.loss == pytest.approx(math.log(want), abs=1e-6)


def groups_by_hand(model, reference, windows, k: int) -> dict[str, list[float]]:
    """Loops and sets. A tie at the k-th place goes to the lower id."""
    found: dict[str, list[float]] = {"context": [], "top": [], "elsewhere": []}
    for window in windows:
        ids, labels = window["input_ids"].tolist(), window["labels"].tolist()
        with torch.no_grad():
            log_probs = model(window["input_ids"][None]).logits[0].log_softmax(-1)
            ranked = (reference or model)(window["input_ids"][None]).logits[0]
        for t in range(len(ids) - 1):
            if labels[t + 1] == -100:
                continue
            best = sorted(range(VOCABULARY), key=lambda word, t=t: (-ranked[t, word].item(), word))[:k]
            word = ids[t + 1]
            name = "context" if word in set(ids[: t + 1]) else "top" if word in best else "elsewhere"
            found[name].append(-log_probs[t, word].item())
    return found


@pytest.mark.parametrize("method", ["softmax+cpr:5,20+mi", "ps"])
@pytest.mark.parametrize("k", [1, 20, 1000])
@pytest.mark.parametrize("with_reference", [True, False])
@pytest.mark.parametrize("stride", [10, 3])
def test_groups(method: str, k: int, with_reference: bool, stride: int) -> None:
    model, reference = model_of(method).eval(), tiny("gpt2").eval() if with_reference else None
    windows = Overlapping(tokens(), 10, stride)
    found = perplexity(model, windows, k=k, reference=reference)
    known = likely_tokens(reference or model, windows, k=k, batch=3)
    for name, group in perplexity(model, windows, k=k, likely=known, batch=2).groups.items():
        assert vars(group) == pytest.approx(vars(found.groups[name]))  # another batch size rounds otherwise
    for name, losses in groups_by_hand(model, reference, windows, k).items():
        group = found.groups[name]
        assert group.tokens == len(losses)
        assert group.share == pytest.approx(len(losses) / found.tokens)
        if losses:
            assert group.loss == pytest.approx(sum(losses) / len(losses), abs=1e-5)
            assert group.perplexity == pytest.approx(math.exp(sum(losses) / len(losses)), abs=1e-3)
        else:
            assert group.loss is group.perplexity is None
    assert sum(group.tokens for group in found.groups.values()) == found.tokens


@given(number=st.integers(1, 40), length=st.integers(2, 12), stride=st.integers(1, 12))
def test_overlapping_windows_score_every_token_once(number: int, length: int, stride: int) -> None:
    stride, ids = min(stride, length), torch.arange(number)
    windows = Overlapping(ids, length, stride)
    scored = []
    for place, window in enumerate(windows):
        assert len(window["input_ids"]) == len(window["labels"]) <= length
        assert window["input_ids"][0] == place * stride
        kept = window["labels"][1:]  # the first is never predicted
        scored += kept[kept != -100].tolist()
    lost = {i * length for i in range(number)} if stride == length else {0}
    assert scored == [token for token in range(number) if token not in lost]


def test_the_result_says_how() -> None:
    model = model_of("mos:2")
    model.train()
    model.head.eval()
    before = {name: module.training for name, module in model.named_modules()}
    reports = []
    found = perplexity(model, cut(tokens()), batch=2, k=7, report=lambda *seen: reports.append(seen))
    assert {name: module.training for name, module in model.named_modules()} == before
    stated = found.windowing
    assert (stated["length"], stated["stride"], stated["windows"]) == (10, 10, 6)
    assert stated["first token of a window"] == "read, not predicted"
    assert found.top_of == "the model itself"
    assert reports[-1][:2] == (6, 6)
    assert len(found.windows) == 6
    assert sum(total for total, _ in found.windows) / found.tokens == pytest.approx(found.loss)
    assert [count for _, count in found.windows] == [9] * 5 + [2]
    assert json.loads(json.dumps(found.to_dict()))["groups"]["top"]["tokens"] == found.groups["top"].tokens
    assert perplexity(model, cut(tokens()), batch=2, k=7) == found


def test_one_batch_of_logits_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    model, seen = tiny("gpt2"), []
    before = model.forward
    monkeypatch.setattr(model, "forward", lambda input_ids, **rest: (seen.append(len(input_ids)), before(input_ids))[1])
    perplexity(model, cut(tokens()), batch=2)
    assert seen == [2, 2, 1, 1]  # the short window alone: no padding


def test_a_text_shorter_than_a_window() -> None:
    model = model_of(None)
    assert perplexity(model, cut(tokens(4))).tokens == 3


@pytest.mark.parametrize(
    ("windows", "said"),
    [([], "the text is empty"), (cut(tokens(1)), "no token to predict"), (cut(tokens(200), 200), "reads at most 128")],
)
def test_refusals(windows: list, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        perplexity(model_of(None), windows)


def test_other_models_are_refused() -> None:
    with pytest.raises(ValueError, match="has an encoder"):
        perplexity(tiny("t5"), cut(tokens()))
    with pytest.raises(ValueError, match="k=0"):
        perplexity(tiny("gpt2"), cut(tokens()), k=0)
    with pytest.raises(ValueError, match="stride 11"):
        Overlapping(tokens(), 10, 11)


# -- words of tokens


@given(st.text(alphabet="aé Z.漢\n@-", max_size=20), st.integers(0, 5))
def test_spans_of_tokens(text: str, skipped: int) -> None:
    """Also where the text begins within a word or a character: spans cover the text, in order."""
    made = byte_pairs()
    ids = made(text).input_ids[skipped:]
    decoded, spans = token_spans(ids, made)
    assert len(spans) == len(ids)
    covered = {i for first, end in spans for i in range(first, end)}
    assert covered == set(range(len(decoded)))
    assert spans == sorted(spans)


class Names:
    name, description = "names", "words in upper case"

    def __call__(self, text: str) -> list[tuple[int, int]]:
        starts = [i for i, letter in enumerate(text) if letter.isupper()]
        return [(first, first + len(text[first:].split()[0])) for first in starts]


def test_proper_nouns() -> None:
    made, model = byte_pairs(), tiny("gpt2")
    ids = made(TEXT).input_ids
    pieces = [made.decode([token]).strip() for token in ids]
    proper = tokens_of_words(ids, made, Names())
    words = {"The", "France", "Anna", "Paris", "She", "London", "Zürich"}
    found = [piece for piece, flag in zip(pieces, proper, strict=True) if flag and "\ufffd" not in piece]
    assert all(any(piece in word for word in words) for piece in found)
    assert sum(proper) >= 9
    model.resize_token_embeddings(len(made))
    found = perplexity(model, cut(torch.tensor(ids), 12), tokenizer=made, tagger=Names())
    assert found.groups["proper noun"].tokens + found.groups["other"].tokens == found.tokens
    wanted = [flag for start in range(0, len(ids), 12) for flag in
              tokens_of_words(ids[start : start + 12], made, Names())[1:]]  # fmt: skip
    assert found.groups["proper noun"].tokens == sum(wanted)
    assert found.tagger == "words in upper case"
