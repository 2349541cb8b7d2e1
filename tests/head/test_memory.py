"""Memory of a head on long texts grows with their length, not with its square."""

from __future__ import annotations

import pytest
import torch
from live_memory import LiveMemory

from unbottle.head import Embedding, Head, HeadConfig, Past, Source, States
from unbottle.method import Method

SIZE, WORDS = 8, 200
DOUBLED = 2.2  # at most, for a text of twice the length
METHODS = [
    ("softmax", False),
    ("softmax+r:20+mi", False),
    ("softmax+cpr:20,100+mi", False),
    ("softmax+i", False),
    ("mos:2+cp", False),
    ("ps", False),
    ("copynet", False),
    ("softmax+cepr:20", True),
    ("ps+e", True),
]
EVERY_METHOD = pytest.mark.parametrize(("method", "encoder_decoder"), METHODS)


class LongText:
    """A head and the inputs of a text of some length; an encoder reads a text of the same length."""

    def __init__(self, method: str, encoder_decoder: bool, length: int) -> None:
        torch.manual_seed(0)
        config = HeadConfig(
            method=Method.parse(method), hidden_size=SIZE, vocabulary=WORDS, encoder_decoder=encoder_decoder
        )
        self.head = Head(config)
        self.ids = torch.randint(0, WORDS, (1, length))
        self.layers = torch.randn(1, length, config.block[0], SIZE)
        self.embedding = Embedding(weight=torch.randn(WORDS, SIZE).requires_grad_())
        self.source = Source(states=torch.randn(1, length, SIZE), ids=self.ids.flip(1)) if encoder_decoder else None

    def states(self, positions: slice = slice(None)) -> States:
        return States(layers=self.layers[:, positions], ids=self.ids[:, positions])

    def logits(
        self, past: Past | None = None, positions: slice = slice(None), kept: slice | None = None
    ) -> torch.Tensor:
        states, source = self.states(positions), self.source
        return self.head(states, self.embedding, source=source, past=past, positions=kept, output="logits").logits

    def loss(self) -> torch.Tensor:
        states, options = self.states(), {"labels": self.ids, "num_items": 1, "output": "loss"}
        return self.head(states, self.embedding, source=self.source, **options).loss

    def train(self) -> int:
        with LiveMemory() as memory:
            self.loss().backward()
        return memory.peak

    @torch.no_grad()
    def evaluate(self) -> int:
        with LiveMemory() as memory:
            self.loss()
        return memory.peak

    @torch.no_grad()
    def predict_all(self) -> int:
        with LiveMemory() as memory:
            self.logits()
        return memory.peak

    @torch.no_grad()
    def prefill(self) -> int:
        with LiveMemory() as memory:
            self.logits(Past(), kept=slice(-1, None))
        return memory.peak

    @torch.no_grad()
    def decode(self) -> int:
        past, last = Past(), self.ids.shape[1] - 3
        self.logits(past, slice(last), kept=slice(-1, None))
        with LiveMemory() as memory:
            for position in range(last, last + 3):
                self.logits(past, slice(position, position + 1))
        return memory.peak


@EVERY_METHOD
@pytest.mark.parametrize("work", ["train", "evaluate", "predict_all", "prefill", "decode"])
def test_twice_the_text_takes_twice_the_memory(
    work: str, method: str, encoder_decoder: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unbottle.head.fused_loss.BUFFER", 2**20)  # a sixteenth, so that texts of a quarter are long
    length = 280 if work == "train" else 560  # a part is smaller than the text
    once, twice = (getattr(LongText(method, encoder_decoder, each), work)() for each in (length, 2 * length))
    assert twice < DOUBLED * once, (
        f"{once / 2**20:.1f} MB for {length} tokens, {twice / 2**20:.1f} MB for twice as many"
    )


def test_no_mask_where_nobody_reads_the_context() -> None:
    text = LongText("softmax+r:20+mi", False, 50)
    x = text.head.inputs(text.states(), text.embedding)
    text.head.distribution(x)
    assert not {name for name in vars(x.context) if "visible" in name}


@torch.no_grad()
def test_predictions_in_parts_are_those_of_all_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a text is cut into parts only where they take more than the buffer."""
    text = LongText("softmax+cpr:20,100+mi", False, 50)
    distribution, calls = text.head.distribution, []
    monkeypatch.setattr(text.head, "distribution", lambda x, logits: calls.append(x) or distribution(x, logits))
    whole = text.logits()
    assert len(calls) == 1
    monkeypatch.setattr("unbottle.head.fused_loss.BUFFER", 50 * 16 * 3)
    torch.testing.assert_close(text.logits(), whole)
    assert len(calls) > 1 + 3


@pytest.mark.parametrize(("method", "parts"), [("softmax", 2), ("mos:3", 5)])
def test_softmaxes_of_a_mixture_share_the_buffer(method: str, parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = LongText(method, False, 10)
    distribution, calls = text.head.distribution, []
    monkeypatch.setattr(text.head, "distribution", lambda x, logits: calls.append(x) or distribution(x, logits))
    monkeypatch.setattr("unbottle.head.fused_loss.PER_TOKEN", 0)  # the texts do not count
    monkeypatch.setattr("unbottle.head.fused_loss.BUFFER", 6 * WORDS)
    text.loss().backward()
    assert len(calls) == parts
