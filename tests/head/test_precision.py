"""Half precision: no method loses more than the plain softmax loses in the same dtype."""

import functools
from dataclasses import replace

import pytest
import torch
from cases import COMBINATIONS
from torch import Tensor

from unbottle.head import Embedding, Head, HeadConfig, Source, States
from unbottle.method import PAPER_METHODS, Method

SIZE, VOCABULARY, BATCH, POSITIONS = 64, 400, 16, 40
KINDS = [(name, kind) for name in (*PAPER_METHODS, *COMBINATIONS) for kind in (False, True)]


@functools.cache
def error(name: str, encoder_decoder: bool, dtype: torch.dtype) -> Tensor:
    """Error of each label's log-probability, against float64 on the very same half-precision numbers.

    NaN where rounding moved a word over the edge of some W(k): there the two compute different things.
    """
    torch.manual_seed(0)
    ids, labels = torch.randint(0, 60, (2, BATCH, POSITIONS))

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape).to(dtype)

    layers, weight, states = draw(BATCH, POSITIONS, 3, SIZE), draw(VOCABULARY, SIZE), draw(BATCH, 9, SIZE)
    table = draw(VOCABULARY, 3, SIZE)
    config = HeadConfig(
        method=Method.parse(name), hidden_size=SIZE, vocabulary=VOCABULARY, encoder_decoder=encoder_decoder
    )
    head = Head(config)
    with torch.no_grad():
        for name, parameter in head.named_parameters():  # as if trained: copying has mass, local embeddings matter
            local = any(part in name for part in ("L.P", "L.L", "gate.v", "prior"))
            parameter.add_(torch.randn_like(parameter) * (0.7 if local else 0.1) / SIZE**0.5)
            if parameter.ndim == 0:
                parameter.zero_()
    head, depth = head.to(dtype), config.block[0]

    @torch.no_grad()
    def run(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        distribution = head.to(dtype)(
            States(layers=layers[:, :, :depth].to(dtype), ids=ids),
            Embedding(weight=weight.to(dtype)),
            source=Source(states=states.to(dtype), ids=ids[:, :9]),
            second_pass=lambda words, f_R, positions: table[:, :depth].to(dtype)[words.ids],
        ).distribution
        logits = distribution.logits[0]
        writers = [replace(logits, written=(write,)).writers()[0] for write in logits.written]
        return distribution.nll(labels), torch.cat([logits.writers()[0], *writers], dim=-1)

    half, half_writers = run(dtype)
    full, full_writers = run(torch.float64)
    return (half - full).abs().where((half_writers == full_writers).all(-1), torch.nan)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    ("name", "encoder_decoder"), [(n, k) for n, k in KINDS if k or "e" not in Method.parse(n).letters]
)
def test_half_precision_costs_no_more_than_the_plain_softmax(name, encoder_decoder, dtype) -> None:
    plain, ours = error("softmax", encoder_decoder, dtype), error(name, encoder_decoder, dtype)
    comparable = ~ours.isnan()
    assert comparable.float().mean() > 0.5
    plain, ours = plain[comparable].mean(), ours[comparable].mean()
    print(f"{name} {dtype}: mean error {ours:.5f}, softmax {plain:.5f}, ratio {ours / plain:.3f}")
    assert ours <= plain * 1.15  # P adds a second rounded product to the logit of a word
