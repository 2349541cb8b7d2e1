"""Off the CPU: no host that waits, few launches, the weight cast once, less memory than the plain loss.

Nothing here needs a GPU: the path of accelerators is forced on CPU tensors, or on tensors without values.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from live_memory import LiveMemory
from operator_calls import OperatorCalls
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F

from unbottle.head import Embedding, Head, HeadConfig, Past, States
from unbottle.method import Method
from unbottle.ops import top

METHOD = "softmax+cpr:20,100+mi"
EVERY = [METHOD, "softmax+c", "mos+mi", "pg", "ps+mi", "copynet", "softmax+cpir:20"]


@pytest.fixture(autouse=True)
def accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unbottle.ops.device.FORCED", True)


@pytest.fixture
def fake() -> Iterator[None]:
    """Tensors without values: shapes of large models cost nothing."""
    with FakeTensorMode():
        yield


class Step:
    """The head of a model in training, and the plain loss in its place."""

    def __init__(
        self, method: str, batch: int, positions: int, size: int, words: int, dtype: torch.dtype = torch.float32
    ) -> None:
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        self.head = Head(HeadConfig(method=Method.parse(method), hidden_size=size, vocabulary=words))
        self.weight = torch.randn(words, size, requires_grad=True)
        self.layers = torch.randn(batch, positions, self.head.config.block[0], size, requires_grad=True)
        torch.set_default_dtype(before)
        self.ids = torch.randint(0, words, (batch, positions))

    def train(self) -> None:
        states, embedding = States(layers=self.layers, ids=self.ids), Embedding(weight=self.weight)
        self.head(states, embedding, labels=self.ids, output="loss").loss.backward()

    def train_plain(self) -> None:
        logits = F.linear(self.layers[:, :, 0], self.weight).float()
        F.cross_entropy(logits.flatten(0, 1), self.ids.flatten()).backward()

    @torch.no_grad()
    def decode(self) -> OperatorCalls:
        """The third token after a prompt."""
        past, prompt = Past(), self.ids.shape[1] - 3
        for start, end in ((0, prompt), *((at, at + 1) for at in range(prompt, prompt + 3))):
            ids, mask = self.ids[:, start:end], torch.ones(len(self.ids), end - start, dtype=torch.bool)
            states = States(layers=self.layers[:, start:end].detach(), ids=ids, mask=mask)
            with OperatorCalls() as calls:
                self.head(states, Embedding(weight=self.weight), past=past, positions=slice(-1, None), output="logits")
        return calls


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(("batch", "positions", "most"), [(4, 200, 400), (8, 1024, 650)])
def test_a_training_step_is_few_launches_and_waits_for_none(batch: int, positions: int, most: int) -> None:
    step = Step(METHOD, batch, positions, 768, 50257)
    with OperatorCalls() as calls:
        step.train()
    assert calls.waits == []
    assert len(calls.calls) <= most


@pytest.mark.parametrize("method", EVERY)
def test_no_method_waits(method: str) -> None:
    step = Step(method, 2, 9, 8, 200)
    with OperatorCalls() as calls:
        step.train()
    assert calls.waits == []
    assert step.decode().waits == []


def test_a_decoding_step_is_at_most_a_hundred_calls() -> None:
    assert len(Step(METHOD, 1, 20, 8, 200).decode().calls) <= 100


def test_top_does_not_wait() -> None:
    values = torch.randn(3, 200).round()
    with OperatorCalls() as calls:
        top(values, 20)
    assert calls.waits == []


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize("weights", [torch.float32, torch.bfloat16])
def test_the_weight_is_cast_at_most_once_a_step(weights: torch.dtype) -> None:
    step = Step(METHOD, 8, 1024, 64, 50257, weights)
    with OperatorCalls() as calls, torch.autocast("cpu", torch.bfloat16, enabled=weights == torch.float32):
        step.train()
    assert sum(shape == step.weight.shape for shape in calls.casts) <= 1  # of bf16 weights: their gradient


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(
    ("size", "words", "dtype"),
    [(768, 50257, torch.float32), (896, 151936, torch.bfloat16), (4096, 128256, torch.bfloat16)],
    ids=["GPT-2", "Qwen2.5-0.5B", "Llama-3-8B"],
)
def test_less_memory_than_the_plain_loss(size: int, words: int, dtype: torch.dtype) -> None:
    step = Step(METHOD, 8, 1024, size, words, dtype)
    with LiveMemory() as ours:
        step.train()
    step.weight.grad = step.layers.grad = None
    with LiveMemory() as plain:
        step.train_plain()
    assert ours.peak < plain.peak


@pytest.mark.parametrize("wrong", [-1, 200])
def test_labels_are_checked_on_the_device(wrong: int) -> None:
    step = Step("softmax+c", 2, 9, 8, 200)
    step.ids[1, 3] = wrong
    states = States(layers=step.layers, ids=step.ids.clamp(0, 199))
    with pytest.raises(RuntimeError, match="labels: allowed are 0 to 199, and -100 for no loss"):
        step.head(states, Embedding(weight=step.weight), labels=step.ids, output="loss")
