"""A fresh head predicts what the plain softmax predicts."""

import pytest
import torch
from cases import COMBINATIONS

from unbottle.head import Embedding, Head, HeadConfig, Source, States
from unbottle.method import PAPER_METHODS, Method

# Total variation to the plain softmax. PG: 1 - p_gen at b_ptr = 7. PS: N exp(b) at b = -14. CopyNet: N exp(b) / Z.
BOUND = {"pg": 1e-3, "ps": 1e-4, "copynet": 1e-4}
KINDS = [(name, kind) for name in (*PAPER_METHODS, *COMBINATIONS) for kind in (False, True)]


@pytest.mark.parametrize(
    ("name", "encoder_decoder"), [(n, k) for n, k in KINDS if k or "e" not in Method.parse(n).letters]
)
@pytest.mark.parametrize("quirks", [{}, {"scale": 0.3, "softcap": 4.0}])
@pytest.mark.parametrize("form", ["scaled", "balanced", "paper"])
def test_fresh_head_is_the_plain_softmax(form: str, name: str, encoder_decoder: bool, quirks: dict) -> None:
    torch.manual_seed(0)
    size, vocabulary, batch, positions = 24, 211, 2, 30
    method = Method.parse(name)
    sizes = {"hidden_size": size, "vocabulary": vocabulary, "encoder_decoder": encoder_decoder}
    head = Head(HeadConfig(method=method, form=form, **sizes)).double()

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, dtype=torch.float64)

    layers, embedding = (
        draw(batch, positions, head.config.block[0], size),
        Embedding(weight=draw(vocabulary, size), **quirks),
    )
    ids = torch.randint(0, vocabulary, (batch, positions))
    distribution = head(
        States(layers=layers, ids=ids),
        embedding,
        source=Source(states=draw(batch, 9, size), ids=ids[:, :9]),
        second_pass=lambda words, f_R, positions: draw(*words.ids.shape, head.config.block[0], size),
    ).distribution
    plain = embedding.logits(layers[:, :, 0]).softmax(-1)
    variation = (distribution.log_probs().exp() - plain).abs().sum(-1).max() / 2
    assert variation < BOUND.get(method.base, 1e-9 if method.wbwr else 1e-13)
    if method.base in BOUND:
        assert variation > 0  # not so quiet that it could never learn


@pytest.mark.parametrize(("start", "b_ptr", "b"), [(7.0, 7, -14), (3, 3, -6), (0, 0, 0)])
def test_where_gates_start(start: float, b_ptr: float, b: float) -> None:
    """The paper: b_ptr is 3 for T5 and 0 elsewhere; ours is 7, so that a fresh head predicts what the model does."""
    heads = {
        name: Head(HeadConfig(method=Method.parse(name), hidden_size=4, vocabulary=9, gate_start=start))
        for name in ("pg", "ps", "copynet")
    }
    assert heads["pg"].gate.b_ptr.item() == b_ptr
    assert heads["ps"].gate.b.item() == heads["copynet"].gate.b.item() == b
    stored = heads["pg"].config.to_dict()
    assert ("gate_start" in stored) == (start != 7)
    assert HeadConfig(**stored | {"method": Method.parse("pg")}) == heads["pg"].config
    with pytest.raises(ValueError, match=r"gate_start -1\.0: expected a number from 0"):
        HeadConfig(method=Method.parse("pg"), hidden_size=4, vocabulary=9, gate_start=-1)


def test_the_paper_starts_pointers_at_a_whisper() -> None:
    sizes = {"hidden_size": 3, "vocabulary": 9, "encoder_decoder": True}
    head = Head(HeadConfig(method=Method.parse("softmax+cepr:2+mi"), form="paper", **sizes))
    for name, projection in head.L.items():
        start = 1e-10 if name in ("PD", "LD", "PE", "LE") else 1.0
        want = torch.eye(3) * start if name == "LE" else torch.cat([torch.eye(3) * start, torch.zeros(3, 3)], dim=1)
        assert torch.equal(projection.weight, want), name


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("autocast", [None, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["softmax+cp", "ps", "copynet", "pg"])
@pytest.mark.parametrize("form", ["scaled", "balanced", "paper"])
def test_every_projection_learns(form: str, name: str, dtype: torch.dtype, autocast: torch.dtype | None) -> None:
    """1e-10 is nothing in fp16: products of whispers must not vanish, or P would never leave its start. In the scaled
    form queries start at zero, as one factor of LoRA does, and keys learn from the second step on."""
    torch.manual_seed(0)
    head = Head(HeadConfig(method=Method.parse(name), hidden_size=32, vocabulary=50, form=form)).to(dtype)
    head.reset_projections()
    ids = torch.randint(0, 50, (2, 12))
    states = States(layers=torch.randn(2, 12, 1, 32).to(dtype), ids=ids)
    embedding = Embedding(weight=torch.randn(50, 32).to(dtype))
    learnt = set()
    for _ in range(1 if form == "paper" else 2):
        with torch.autocast("cpu", dtype=autocast or torch.bfloat16, enabled=autocast is not None):
            loss = head(states, embedding).distribution.nll(ids.roll(-1, 1)).mean()
        head.zero_grad()
        (loss * 2.0**16).backward()  # as a gradient scaler does
        for name, parameter in head.L.named_parameters():
            if parameter.grad.abs().max() > 0:
                learnt.add(name)
            parameter.data -= 0.01 * parameter.grad.sign()
    assert learnt == set(dict(head.L.named_parameters()))
