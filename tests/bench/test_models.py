"""Variants share their weights, and the head alone computes what it computes in the whole model."""

import pytest
import torch
from tiny_shapes import ALL, TINY

from unbottle.bench.cases import SHAPES, Execution, HeadVariant, Point, Shape
from unbottle.bench.models import Models, fill
from unbottle.bench.timing import texts, work
from unbottle.head import Head


def test_variants_share_all_but_their_heads() -> None:
    models = Models(TINY, positions=9, execution=Execution())
    one, other = models.model(HeadVariant()), models.model(HeadVariant(method="softmax+c+mi"))
    assert models.model(HeadVariant()) is one
    base = dict(models.base.named_parameters())
    assert dict(one.named_parameters()).keys() == base.keys()
    for name, parameter in other.named_parameters():
        assert name.startswith("head.") or parameter is base[name]
    assert not hasattr(one, "head")
    assert not hasattr(models.base, "head")
    assert one.config is not other.config


def test_room_for_long_texts() -> None:
    assert Models(TINY, positions=40, execution=Execution()).base.config.n_positions == 40
    assert Models(TINY, positions=4, execution=Execution()).base.config.n_positions == 16


def test_dtype() -> None:
    model = Models(TINY, positions=9, execution=Execution(dtype="bfloat16")).model(HeadVariant(method="softmax+c"))
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}


@pytest.mark.parametrize("method", ["plain", "softmax+c+mi"])
def test_autocast(method: str) -> None:
    """float32 weights and gradients, products in bfloat16."""
    whole = Models(TINY, positions=9, execution=Execution(autocast=True)).model(HeadVariant(method=method))
    assert {parameter.dtype for parameter in whole.parameters()} == {torch.float32}
    seen: set[torch.dtype] = set()
    whole.transformer.h[0].attn.c_attn.register_forward_hook(lambda module, args, output: seen.add(output.dtype))
    todo = work(whole, Point(shape=TINY, measure="train", batch=2, length=9))
    todo.prepare()
    todo.run()
    assert seen == {torch.bfloat16}
    assert {parameter.grad.dtype for parameter in whole.parameters() if parameter.grad is not None} == {torch.float32}


def test_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every variant is compiled, whatever calls it."""
    monkeypatch.setattr(torch, "compile", lambda call, **options: lambda *args, **kwargs: ("compiled", call))
    models = Models(TINY, positions=9, execution=Execution(compile=True))
    for method in ("plain", "softmax+c"):
        model = models.model(HeadVariant(method=method))
        assert model(torch.zeros(1, 2, dtype=torch.long))[0] == "compiled"


def test_device() -> None:
    """Weights, texts and hidden states are on the device of the settings; the meta device stands for it here."""
    models = Models(TINY, positions=9, execution=Execution(device="meta"))
    for alone in (False, True):
        model = models.model(HeadVariant(method="plain"), head_alone=alone)
        assert {parameter.device.type for parameter in model.parameters()} == {"meta"}
        point = Point(shape=TINY, measure="forward", batch=2, length=9)
        assert {value.device.type for value in texts(model, point).values()} == {"meta"}
        for stub in fill(model, batch=2, length=9, source_length=0, require_grad=False):
            assert {layer.device.type for layer in stub.layers} == {"meta"}


def test_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Head, "path", "auto", raising=False)
    models = Models(TINY, positions=9, execution=Execution())
    assert models.model(HeadVariant(method="mos:2", path="dense")).head.path == "dense"
    assert models.model(HeadVariant(method="mos:2")).head.path == "auto"


@pytest.mark.parametrize("shape", ALL, ids=lambda shape: shape.name)
@pytest.mark.parametrize("method", ["plain", "softmax+cpr:3,6+mi", "pg"])
def test_the_head_alone_is_the_head_of_the_model(shape: Shape, method: str) -> None:
    """Given the hidden states of the whole model, the model without layers has its logits."""
    models, variant = Models(shape, positions=16, execution=Execution()), HeadVariant(method=method)
    whole, alone = models.model(variant).eval(), models.model(variant, head_alone=True).eval()
    if method != "plain":
        alone.head.load_state_dict(whole.head.state_dict())
    sizes = {"batch": 2, "length": 9, "source_length": 7 if shape.encoder_decoder else 0}
    point = Point(shape=shape, measure="head-forward", **sizes)
    expected = work(whole, Point(shape=shape, measure="forward", **sizes))
    seen: dict[str, tuple] = {}

    def watch(name: str):
        return lambda module, args, output: seen.update({name: output})

    if shape.encoder_decoder:
        parts = {"encoder": whole.get_encoder(), "decoder": whole.get_decoder()}
        stubs = {"encoder": alone.get_encoder(), "decoder": alone.get_decoder()}
    else:
        parts, stubs = {"decoder": whole.base_model}, {"decoder": alone.base_model}
    hooks = [part.register_forward_hook(watch(name)) for name, part in parts.items()]
    whole.config.output_hidden_states = True
    expected.prepare()
    logits = expected.run()
    for hook in hooks:
        hook.remove()
    todo = work(alone, point)
    for name, stub in stubs.items():
        last = seen[name][0]
        assert stub.layers[0].shape == last.shape
        below = seen[name].hidden_states or (last,)  # encoder-decoder models may tell the last layer only
        stub.layers = (*below[:-1], last)
    todo.prepare()
    torch.testing.assert_close(todo.run(), logits)


@pytest.mark.parametrize(
    ("name", "millions", "layers"),
    [
        ("gpt2", 124.4, 12),
        ("gpt2-medium", 354.8, 24),
        ("t5-small", 60.5, 6),
        ("t5-base", 222.9, 12),
        ("bart-base", 139.4, 6),
        ("bart-large", 406.3, 12),
        ("smollm2-135m", 134.5, 30),
    ],
)
def test_shapes_are_the_models_they_are_named_after(name: str, millions: float, layers: int) -> None:
    """By the number of their parameters, counted without making them."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

    shape = SHAPES[name]
    auto = AutoModelForSeq2SeqLM if shape.encoder_decoder else AutoModelForCausalLM
    with torch.device("meta"):
        model = auto.from_config(AutoConfig.for_model(shape.model_type, **shape.options(1024)))
    assert model.config.num_hidden_layers == layers
    assert model.get_output_embeddings().weight.shape[0] == shape.vocabulary
    assert round(model.num_parameters() / 1e6, 1) == millions


def test_vocab_152k() -> None:
    assert SHAPES["vocab-152k"].vocabulary == 151936
    assert SHAPES["vocab-152k"].options()["hidden_size"] == 896
