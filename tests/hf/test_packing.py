"""Several documents in one row, or padding around one: each document is read as if it were alone."""

from __future__ import annotations

import pytest
import torch
from models import PAD, shaken, tiny, words
from transformers import DataCollatorWithFlattening

from unbottle.hf import attach

LENGTHS = (5, 7, 4)
METHODS = [
    "softmax+c",
    "softmax+p",
    "softmax+r:5",
    "softmax+mi",
    "softmax+cpr:5,20+mi",
    "mos+cpr:5,20+mi",
    "pg+mi",
    "ps+mi",
    "copynet",
]
FULL = [("mistral", "softmax+cpr:5,20+mi"), ("gemma2", "mos+cpr:5,20+mi"), ("qwen3", "ps+mi"), ("gpt_neox", "pg+mi")]
CASES = [("gpt2", method) for method in METHODS] + [("llama", method) for method in METHODS[4:]]
CASES = CASES + [pytest.param(*case, marks=pytest.mark.full) for case in FULL]
SIGNS = {
    "position_ids": {},
    "seq_idx": {"return_seq_idx": True},
    "cu_seq_lens": {"return_flash_attn_kwargs": True},
}


def attached(name: str, method: str):
    return shaken(attach(tiny(name), method))


def documents() -> list[torch.Tensor]:
    """Three documents that share words: the later ones begin like the first."""
    made = [words(1, length, seed=length)[0] for length in LENGTHS]
    for later in made[1:]:
        later[:2] = made[0][:2]
    return made


def flattened(sign: str) -> dict[str, torch.Tensor]:
    """The documents as one row. Where a sign tells them apart, position ids alone would not: the head must read it."""
    batch = DataCollatorWithFlattening(**SIGNS[sign])([{"input_ids": ids.tolist()} for ids in documents()])
    return dict(batch)


def alone(model) -> tuple[torch.Tensor, torch.Tensor]:
    """The logits of each document by itself, one after the other, and their mean loss."""
    outputs = [model(ids[None], labels=ids[None]) for ids in documents()]
    counts = [len(ids) - 1 for ids in documents()]
    total = sum(output.loss * count for output, count in zip(outputs, counts, strict=True))
    return torch.cat([output.logits[0] for output in outputs]), total / sum(counts)


@torch.no_grad()
@pytest.mark.parametrize(("name", "method"), CASES)
@pytest.mark.parametrize("sign", SIGNS)
def test_packed_documents_are_read_as_if_alone(name, method, sign):
    model = attached(name, method)
    logits, loss = alone(model)
    together = model(**flattened(sign))
    torch.testing.assert_close(together.logits[0], logits, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(together.loss, loss, atol=1e-5, rtol=1e-5)
    assert together.past_key_values is None, "a cache would have let the documents attend to each other"


@torch.no_grad()
@pytest.mark.parametrize("sign", ["seq_idx", "cu_seq_lens"])
def test_the_head_trusts_the_sign_more_than_position_ids(sign):
    """Models that know documents by other means get position ids that do not restart."""
    model = attached("llama", "softmax+c+mi")
    batch = flattened(sign)
    sequence = {"seq_idx": batch["seq_idx"]} if sign == "seq_idx" else {"cu_seq_lens_q": batch["cu_seq_lens_q"]}
    went_on = torch.arange(sum(LENGTHS))[None]
    want = model(input_ids=batch["input_ids"], position_ids=batch["position_ids"], use_cache=False)
    leaking = model(input_ids=batch["input_ids"], position_ids=went_on, use_cache=False)
    seen = []
    model.head.__dict__["inputs"] = lambda states, *args, **kw: (
        seen.append(states) or type(model.head).inputs(model.head, states, *args, **kw)
    )
    model(input_ids=batch["input_ids"], position_ids=went_on, use_cache=False, **sequence)
    model(input_ids=batch["input_ids"], position_ids=batch["position_ids"], use_cache=False)
    assert torch.equal(seen[0].documents, seen[1].documents)
    assert not torch.allclose(leaking.logits, want.logits)


def test_packed_documents_refuse_what_would_mix_them():
    model = attached("llama", "softmax+c")
    with pytest.raises(ValueError, match="several documents in one row with use_cache=True"):
        model(**flattened("position_ids"), use_cache=True)


@torch.no_grad()
@pytest.mark.parametrize(("name", "method"), CASES)
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_nothing(name, method, side):
    model = attached(name, method)
    logits, loss = alone(model)
    width = max(LENGTHS)
    ids = torch.full((len(LENGTHS), width), PAD)
    mask, labels = torch.zeros_like(ids), torch.full_like(ids, -100)
    for row, document in enumerate(documents()):
        place = slice(width - len(document), None) if side == "left" else slice(len(document))
        ids[row, place], labels[row, place], mask[row, place] = document, document, 1
        labels[row, place][0] = -100  # what stands before it is padding, and padding predicts nothing
    places = {"position_ids": (mask.cumsum(1) - 1).clamp(min=0)} if name == "gpt2" else {}  # the others are relative
    padded = model(ids, attention_mask=mask, labels=labels, **places)
    torch.testing.assert_close(padded.logits[mask.bool()], logits, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(padded.loss, loss, atol=1e-5, rtol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("name", ["t5", "bart"])
@pytest.mark.parametrize("method", ["s+cepr:20+mi", "ps", "copynet"])
def test_padding_of_both_sides_of_an_encoder_decoder_changes_nothing(name, method):
    model = attached(name, method)
    sources, targets = documents(), [words(1, length, seed=9 + length)[0] for length in LENGTHS]
    singles = [model(input_ids=s[None], labels=t[None]) for s, t in zip(sources, targets, strict=True)]
    loss = sum(single.loss * length for single, length in zip(singles, LENGTHS, strict=True)) / sum(LENGTHS)
    pad = torch.nn.utils.rnn.pad_sequence
    ids, labels = pad(sources, batch_first=True, padding_value=PAD), pad(targets, True, padding_value=-100)
    mask = pad([torch.ones_like(s) for s in sources], batch_first=True)
    padded = model(input_ids=ids, attention_mask=mask, labels=labels)
    logits = torch.cat([single.logits[0] for single in singles])
    torch.testing.assert_close(padded.logits[labels != -100], logits, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(padded.loss, loss, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("method", ["softmax+c", "softmax+cpr:5,20", "pg"])
@torch.no_grad()
def test_words_after_padding_go_on_with_the_document(method: str) -> None:
    """Position ids of padding restart, and are no document: what comes after a padded prompt reads the prompt."""
    model, ids, following = attached("llama", method), words(2, 9), words(2, 1, seed=4)
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    places = (mask.cumsum(1) - 1).masked_fill(mask == 0, 1)
    cache = model(ids, attention_mask=mask, position_ids=places, use_cache=True).past_key_values
    longer = torch.cat([mask, torch.ones_like(following)], dim=1)
    next_places = longer.sum(1, keepdim=True) - 1
    got = model(following, attention_mask=longer, position_ids=next_places, past_key_values=cache).logits
    for row, length in enumerate(mask.sum(1)):
        alone = torch.cat([ids[row, :length], following[row]])[None]
        torch.testing.assert_close(got[row, -1], model(alone).logits[0, -1], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("places", [torch.arange(9), torch.tensor([0, 1, 2, 3, 4, 0, 1, 2, 3])], ids=["one", "packed"])
@torch.no_grad()
def test_position_ids_of_one_row_are_those_of_every_row(places: torch.Tensor) -> None:
    model, ids = attached("llama", "softmax+cpr:5,20+mi"), words(2, 9)
    got = model(ids, position_ids=places[None]).logits
    want = torch.cat([model(row[None], position_ids=places[None]).logits for row in ids])
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-4)
