"""What each measure does with a model."""

import pytest
import torch
from tiny_shapes import ALL, TINY

from unbottle.bench.cases import AT_CONTEXT, HEAD, MEASURES, NEW_TOKENS, Execution, HeadVariant, Point, Shape
from unbottle.bench.models import Models
from unbottle.bench.timing import DECODE_STEPS, Work, count_flops, work
from unbottle.hf.modeling import SkippedLogits


def point(shape: Shape, measure: str) -> Point:
    context = 12 if measure in AT_CONTEXT and not (measure == "generate" and shape.encoder_decoder) else None
    source = shape.source_length
    return Point(shape=shape, measure=measure, batch=2, length=9, source_length=source, context=context)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("shape", ALL, ids=lambda shape: shape.name)
def test_every_measure_runs_on_every_shape(shape: Shape, measure: str) -> None:
    models = Models(shape, positions=point(shape, measure).positions, execution=Execution())
    for method in ("plain", *shape.methods):
        model = models.model(HeadVariant(method=method), head_alone=measure in HEAD)
        todo = work(model, point(shape, measure))
        for _ in range(2):
            todo.prepare()
            assert all(parameter.grad is None for parameter in model.parameters())
            result = todo.run()
            assert model.training == measure.endswith("train")
            if measure.endswith("forward"):
                assert result.shape == (2, 9, 61)
            elif measure == "generate":
                assert result.shape == (2, NEW_TOKENS + (1 if shape.encoder_decoder else 12))
            elif "loss" in measure:
                assert result.ndim == 0
                assert not result.requires_grad
        weight = model.get_output_embeddings().weight
        assert (weight.grad is not None) == measure.endswith("train")
        model.zero_grad(set_to_none=True)


def test_train_reaches_the_head_and_the_hidden_states() -> None:
    model = Models(TINY, positions=16, execution=Execution()).model(HeadVariant(method="softmax+c+mi"), head_alone=True)
    todo = work(model, point(TINY, "head-train"))
    for _ in range(2):
        todo.prepare()
        todo.run()
    assert all(parameter.grad is not None for parameter in model.head.parameters())
    assert model.base_model.layers[-1].grad is not None
    once = model.base_model.layers[-1].grad.clone()
    todo.prepare()
    todo.run()
    torch.testing.assert_close(model.base_model.layers[-1].grad, once)  # forgotten in between, not added up


@pytest.mark.parametrize(("measure", "expected"), [("loss", {}), ("loss-no-logits", {"skip_logits": True})])
def test_the_loss_is_asked_for_as_people_do(measure: str, expected: dict) -> None:
    """In evaluation mode, with labels and nothing else: logits come with it unless they are declined."""
    seen: list[tuple[dict, bool]] = []

    class Model(torch.nn.Module):
        config = type("Config", (), {"is_encoder_decoder": False})
        device = torch.device("cpu")

        def forward(self, input_ids, labels, use_cache=None, skip_logits=None):
            asked = {"use_cache": use_cache, "skip_logits": skip_logits}
            seen.append(({name: value for name, value in asked.items() if value is not None}, self.training))
            return type("Output", (), {"loss": torch.tensor(1.0)})

    todo = work(Model(), point(TINY, measure))
    todo.prepare()
    todo.run()
    assert seen == [(expected, False)]


def test_a_head_returns_its_logits_with_the_loss_unless_declined() -> None:
    model = Models(TINY, positions=16, execution=Execution()).model(HeadVariant(method="softmax+c+mi"))
    outputs = []
    model.register_forward_hook(lambda module, args, output: outputs.append(output))
    for measure in ("loss", "loss-no-logits"):
        todo = work(model, point(TINY, measure))
        todo.prepare()
        todo.run()
    assert outputs[0].logits.shape == (2, 9, 61)
    assert isinstance(outputs[1].logits, SkippedLogits)


@pytest.mark.parametrize("shape", ALL, ids=lambda shape: shape.name)
def test_decoding_ends_at_its_context(shape: Shape) -> None:
    """The last step reads as many words as asked for, in every round, and every step reads one."""
    model = Models(shape, positions=16, execution=Execution()).model(HeadVariant(method=shape.methods[0]))
    lengths: list[tuple[int, int]] = []

    def watch(module, args, kwargs, output):
        ids = kwargs["decoder_input_ids" if shape.encoder_decoder else "input_ids"]
        lengths.append((ids.shape[1], output.past_key_values.get_seq_length()))

    model.register_forward_hook(watch, with_kwargs=True)
    todo = work(model, point(shape, "decode"))
    assert lengths == [(12 - DECODE_STEPS - 1, 12 - DECODE_STEPS - 1)]
    assert todo.steps == DECODE_STEPS
    for _ in range(2):
        lengths.clear()
        todo.prepare()
        assert len(lengths) == 1
        todo.run()
        assert lengths[-1] == (1, 12)
        assert len(lengths) == 1 + DECODE_STEPS


def test_all_variants_read_the_same_texts() -> None:
    """A fresh head predicts what the plain model does, so the losses agree: same texts, same weights."""
    models = Models(TINY, positions=16, execution=Execution())
    losses = []
    for method in ("plain", "softmax+c+mi"):
        todo = work(models.model(HeadVariant(method=method)), point(TINY, "loss"))
        todo.prepare()
        losses.append(todo.run())
    torch.testing.assert_close(*losses)


def test_flops_are_those_of_dense_products() -> None:
    """In place or not, in the forward or the backward pass; a sparse product counts for nothing."""
    a, b, total = torch.ones(3, 5), torch.ones(5, 7, requires_grad=True), torch.zeros(3, 7)

    def run() -> None:
        (a @ b).sum().backward()
        with torch.no_grad():
            total.addmm_(a, b)
            total.addmm_(a.to_sparse_csr(), b)

    assert count_flops(Work(lambda: None, run)) == 3 * (2 * 3 * 5 * 7)
    assert count_flops(Work(lambda: None, run, steps=3)) == 2 * 3 * 5 * 7


def test_flops_of_the_fused_loss_are_those_of_the_dense_path() -> None:
    """The fused loss takes gradients in the forward pass, some positions at a time, and adds them in place."""
    models = Models(TINY, positions=9, execution=Execution())
    dense, fused = (
        count_flops(work(models.model(HeadVariant(method="softmax+mi", path=path)), point(TINY, "train")))
        for path in ("dense", "fused")
    )
    assert fused == dense
