"""The inputs of a head: `States` and `Source` are what a model passes, `Inputs` is the x of the data flow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from unbottle.head.embedding import Embedding
from unbottle.head.knobs import Knobs
from unbottle.head.multi_input import MultiInput
from unbottle.head.tokens import Tokens
from unbottle.ops import Words


@dataclass(frozen=True, kw_only=True)
class States:
    """Hidden states of the decoder at some positions.

    `layers[:, :, m]` is h^{M-m}; layer 0 is what the plain output layer would receive.
    `mask` is False on padding: no word there, and no hidden state for Mi. `readable` is False where the position is
    real but its word is in no S (a decoder start token that is padding). Positions see each other only where their
    `documents` agree.
    """

    layers: Float[Tensor, "B T L D"]
    ids: Int[Tensor, "B T"]
    mask: Bool[Tensor, "B T"] | None = None
    readable: Bool[Tensor, "B T"] | None = None
    documents: Int[Tensor, "B T"] | None = None


@dataclass(frozen=True, kw_only=True)
class Source:
    """The encoder input I: its words and the encoder's last hidden states. `mask` is False on padding."""

    states: Float[Tensor, "B N E"]
    ids: Int[Tensor, "B N"]
    mask: Bool[Tensor, "B N"] | None = None


# (candidates B T S, f_R B T D, positions T) -> the candidates' layers, B T S L D: the second pass of wbwR
SecondPass = Callable[[Words, Tensor, Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Hidden states, words and projections at some positions."""

    q: Float[Tensor, "B T Q"]
    h: Float[Tensor, "B T D"]  # h^M
    positions: Int[Tensor, " T"]  # counted from the first position the head ever saw
    start: int | None  # the first of them, where they are consecutive and the host knows it
    context: Tokens
    source: Tokens | None
    embedding: Embedding
    L: nn.ModuleDict
    L_h: MultiInput | None = None
    before: Float[Tensor, "B T D"] | None = None  # wbwR: what a position and those before it give to Mi of the next
    second_pass: SecondPass | None = None
    knobs: Knobs = field(default_factory=Knobs)  # of this call
    projected: Mapping[str, Tensor] = field(default_factory=dict)  # every f, once the head has computed them

    def f(self, name: str) -> Float[Tensor, "B T D"]:
        """f_{c_t,name}."""
        return self.projected[name]

    def rows(self, rows: slice | Tensor) -> Inputs:
        """The same inputs at some of the positions."""
        return replace(
            self,
            q=self.q[:, rows],
            h=self.h[:, rows],
            positions=self.positions[rows],
            start=self._start(rows),
            context=self.context.rows(rows),
            before=None if self.before is None else self.before[:, rows],
            projected={name: f[:, rows] for name, f in self.projected.items()},
        )

    def part(self, batch: slice, rows: slice) -> Inputs:
        """The same inputs at some positions of some rows of the batch; tokens that come later are left out."""
        q, start = self.q[batch, rows], self._start(rows)
        last = self.context.ids.shape[1] if start is None else start + q.shape[1]
        return replace(
            self,
            q=q,
            h=self.h[batch, rows],
            positions=self.positions[rows],
            start=start,
            context=self.context.part(batch, rows, last),
            source=None if self.source is None else self.source.part(batch, rows, self.source.ids.shape[1]),
            before=None if self.before is None else self.before[batch, rows],
            projected={name: f[batch, rows] for name, f in self.projected.items()},
        )

    def _start(self, rows: slice | Tensor) -> int | None:
        """Where some of the positions begin, if they are consecutive too."""
        if self.start is None or not isinstance(rows, slice):
            return None
        first, _, step = rows.indices(self.q.shape[1])
        return self.start + first if step == 1 else None

    def tensors(self) -> dict[str, Tensor]:
        """Everything here that has a gradient, but for parameters and embeddings."""
        texts = {"context": self.context} | ({} if self.source is None else {"source": self.source})
        keys = {f"{text}.{name}": key for text, tokens in texts.items() for name, key in tokens.keys.items()}
        return {"q": self.q, "h": self.h} | {f"f.{name}": f for name, f in self.projected.items()} | keys

    def replaced(self, tensors: Mapping[str, Tensor]) -> Inputs:
        """The same inputs with other `tensors`."""

        def text(kind: str, tokens: Tokens) -> Tokens:
            return replace(tokens, keys={name: tensors[f"{kind}.{name}"] for name in tokens.keys})

        return replace(
            self,
            q=tensors["q"],
            h=tensors["h"],
            context=text("context", self.context),
            source=None if self.source is None else text("source", self.source),
            projected={name: tensors[f"f.{name}"] for name in self.projected},
        )

    def unfolded(self) -> Inputs:
        """Each token is a word of its own: what a method computes for the words of a text, it now does for tokens."""
        source = None if self.source is None else _unfolded(self.source)
        return replace(self, context=_unfolded(self.context), source=source)

    def text(self, *, source: bool) -> Tokens:
        """The encoder input or the context."""
        if not source:
            return self.context
        assert self.source is not None, "checked when the inputs were built"
        return self.source


def _unfolded(text: Tokens) -> Tokens:
    return replace(text, first=torch.arange(text.ids.shape[1], device=text.ids.device).expand_as(text.ids))
