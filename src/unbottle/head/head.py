"""Head: the output layer. `forward` is its one entry; `inputs` and `distribution` are the data flow:

layers -> q = MultiInput(layers), words become texts             inputs
logits = embedding.logits(L_V(q))                                distribution
for partition in partitions:                                     # later ones overwrite earlier ones
    words  = partition.words(x, logits)
    logits = logits.overwrite(words, partition.score(x, words, logits.at(words)))
softmax, mixture or copied mass -> loss, logits or both          distribution, forward
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from unbottle.head import validation
from unbottle.head.cache import Past
from unbottle.head.compiled_loss import compiled_loss, register
from unbottle.head.config import HeadConfig
from unbottle.head.distribution import IGNORED, Distribution, Objective, check_labels
from unbottle.head.embedding import Embedding
from unbottle.head.fused_loss import FusedLogits, FusedLoss
from unbottle.head.inputs import Inputs, SecondPass, Source, States
from unbottle.head.knob_effects import COPYING, apply_knobs
from unbottle.head.knobs import Knobs
from unbottle.head.learnt import Learnt
from unbottle.head.multi_input import Windows
from unbottle.head.partitions import CopyNet, Reranker, WordByWord
from unbottle.head.tokens import Readers, Tokens
from unbottle.method import LETTERS
from unbottle.ops import DenseLogits, Logits, Words, Workspace, Write, product_dtype, wide, without_gradients


class Prediction(NamedTuple):
    """What a call of a head returns, as far as it was asked for. A named tuple: hooks find the tensors in it."""

    loss: Float[Tensor, ""] | None = None
    losses: Float[Tensor, "B T"] | None = None  # of each position, 0 where there is no label
    logits: Float[Tensor, "B T V"] | None = None  # or log-probabilities: see `Distribution.scores`
    distribution: Distribution | None = None


class Read(NamedTuple):
    """What `Head.read` makes of some positions."""

    q: Float[Tensor, "B T Q"]
    positions: Int[Tensor, " T"]  # counted from the first position the head ever saw
    documents: Int[Tensor, "B T"]
    mask: Bool[Tensor, "B T"]  # False on padding
    before: Float[Tensor, "B T D"] | None  # wbwR: see `Inputs.before`


Watch = Callable[[Inputs, Distribution], None]


class Head(Learnt):
    """An output layer of the paper: hidden states and words in, a distribution over the next word out.

    Parameters carry the paper's letters: `L["V"]`, `"C"`, `"E"`, `"PD"`, `"LD"`, `"PE"`, `"LE"`, `"R1"`, `"R2"`, ...
    (MoS: `"V"`, `"V2"`, `"V3"`; wbwR: `"R"`), `L_h` (Mi), `prior` (MoS), `gate` (PG, PS, CopyNet).
    """

    def __init__(self, config: HeadConfig) -> None:
        super().__init__(config)
        self.strict = False  # also refuse NaN and infinity; costs a pass over the hidden states and logits
        self.watch: Watch | None = None  # is shown every prediction
        self.path: Literal["auto", "fused", "dense"] = "auto"  # fused where it can be; dense is the readable reference
        self.objective = Objective()
        self.workspace = Workspace()
        self._knobs = Knobs()
        self.number = register(self)

    def __setstate__(self, state: dict) -> None:
        """Of a copy, or of a pickle."""
        super().__setstate__(state)
        self.number = register(self)

    def reads_source(self, knobs: Knobs) -> bool:
        """Whether this head needs the encoder input under these knobs."""
        letters = self.config.method.letters
        needed = bool(self.source_keys) or any(LETTERS[letter].needs_source for letter in letters)
        return needed or (self.config.encoder_decoder and knobs.source_only)

    @property
    def copies(self) -> bool:
        """Whether this head copies words of a text, so that knobs have something to turn."""
        return self.gate is not None or any(partition.name in COPYING for partition in self.partitions)

    @property
    def knobs(self) -> Knobs:
        """The knobs of calls that bring none of their own; set them for inference, set `Knobs()` to train."""
        return self._knobs

    @knobs.setter
    def knobs(self, knobs: Knobs) -> None:
        self.check_knobs(knobs)
        self._knobs = knobs

    def check_knobs(self, knobs: Knobs) -> None:
        """Refuse knobs that this head does not have."""
        if knobs.turned and not self.copies:
            raise ValueError(
                f"{knobs}: method {str(self.config.method)!r} has nothing to copy. "
                "Knobs are for methods with c, e or p, and for pg, ps and copynet."
            )

    def forward(
        self,
        states: States,
        embedding: Embedding,
        *,
        source: Source | None = None,
        past: Past | None = None,
        second_pass: SecondPass | None = None,
        knobs: Knobs | None = None,
        labels: Shaped[Tensor, "B T"] | None = None,
        num_items: Tensor | float | int | None = None,
        positions: slice | Tensor | None = None,
        output: Literal["distribution", "logits", "loss"] = "distribution",
    ) -> Prediction:
        """The one entry for training, evaluation and decoding. A `past` is read, then remembers these positions.

        With `labels` there is a loss: the sum of the losses divided by `num_items`, by default the number of labels.
        `positions` are those to predict at (default: all). `output` is what is needed: with "loss" the logits are never
        all there, with "logits" they may be written over step by step, "distribution" keeps everything.
        """
        x = self.inputs(states, embedding, source=source, past=past, second_pass=second_pass, knobs=knobs)
        if labels is not None and num_items is None:
            num_items = (labels != IGNORED).sum()
        if output == "loss":
            if labels is None or num_items is None:
                raise ValueError("output='loss' needs labels.")
            return Prediction(*self._loss(x, labels, num_items))
        x = x if positions is None or _is_whole(positions, x.q.shape[1]) else x.rows(positions)
        if output == "logits" and not torch.is_grad_enabled():
            logits, losses = self.logits(x, labels)
            loss = None if losses is None or num_items is None else losses.sum() / num_items
            return Prediction(loss, losses, logits)
        distribution, loss, losses = self.distribution(x), None, None
        if labels is not None and num_items is not None:
            check_labels(labels, x.q.shape[:2], embedding.vocabulary)
            losses = self.objective.losses(distribution, labels)
            loss = losses.sum() / num_items
        return Prediction(loss, losses, distribution.scores(), distribution)

    def distribution(self, x: Inputs, logits: Callable[[Tensor], Logits] | None = None) -> Distribution:
        """Logits of the vocabulary, partitions in order, softmax. `logits` makes those of the vocabulary from f_V."""
        x = self._projected(x)
        logits = logits or (lambda f: DenseLogits(x.embedding.logits(f)))
        first, *others = (logits(self._f_V(x, name)) for name in self.softmaxes)
        if self.strict:
            for logits_k in (first, *others):
                validation.check_numbers("logits", logits_k.values)
        first_stage = None
        for partition in self.partitions:
            if isinstance(partition, WordByWord) and self.training:  # its loss is added in training only
                first_stage = self._mix(x, (first, *others))
            words = partition.words(x, first)
            now = first.at(words)
            scores = partition.score(x, words, now)
            if self.strict:
                validation.check_numbers(f"score of {partition.name}", scores.where(words.present, 0))
            first = first.overwrite(Write(partition.name, words, now, scores))
        distribution = replace(self._mix(x, (first, *others)), first_stage=first_stage)
        if x.knobs.turned:
            x.knobs.refuse_training(self.training)
            distribution = apply_knobs(distribution, x, self.gate)
        if self.watch is not None:
            self.watch(x, distribution)
        return distribution

    def _loss(
        self, x: Inputs, labels: Shaped[Tensor, "B T"], num_items: Tensor | float | int
    ) -> tuple[Float[Tensor, ""], Float[Tensor, "B T"]]:
        """Sum of the losses divided by `num_items`, and the losses; without all logits where possible."""
        check_labels(labels, x.q.shape[:2], x.embedding.vocabulary)
        if not self._fuses(x, loss=True):
            losses = self.objective.losses(self.distribution(x), labels)
            return losses.sum() / num_items, losses
        x = self._projected(x)
        scale = 1 / torch.as_tensor(num_items, dtype=wide(x.q.dtype), device=labels.device)
        if product_dtype(x.embedding.weight) == torch.float16:  # small gradients vanish unless they are scaled later
            total, losses = self._fused(x, labels, torch.ones_like(scale))
            return total * scale, losses
        return self._fused(x, labels, scale)

    def _fused(
        self, x: Inputs, labels: Shaped[Tensor, "B T"], scale: Float[Tensor, ""]
    ) -> tuple[Float[Tensor, ""], Float[Tensor, "B T"]]:
        """Sum of the losses times `scale`, and the losses."""
        weights = scale.expand(labels.shape)
        if torch.compiler.is_compiling():
            return compiled_loss(self, x, labels, weights)
        return self.fused_loss(records=torch.is_grad_enabled())(x, labels, weights)

    def fused_loss(self, *, records: bool) -> FusedLoss:
        """The loss without all logits; `records` says whether gradients are wanted."""
        in_place = not self.objective.label_smoothing or self.config.method.base not in ("mos", "pg", "ps")
        return FusedLoss(
            self.distribution,
            self.own_weights,
            self.objective,
            self.workspace,
            records,
            softmaxes=len(self.softmaxes),
            in_place=in_place,
        )

    @property
    def own_weights(self) -> list[Tensor]:
        """Weights that `distribution` uses itself: of the gate, of the prior."""
        return [weight for module in (self.gate, self.prior) if module is not None for weight in module.weights]

    @without_gradients
    def logits(
        self, x: Inputs, labels: Shaped[Tensor, "B T"] | None = None
    ) -> tuple[Float[Tensor, "B T V"], Float[Tensor, "B T"] | None]:
        """The scores of `distribution` without gradients, and the losses where there are labels.

        The products with the vocabulary are written where the logits are returned, and the partitions overwrite them
        there: nothing of that size is copied. A long text is taken some positions at a time.
        """
        if labels is not None:
            check_labels(labels, x.q.shape[:2], x.embedding.vocabulary)
        if not self._fuses(x):
            distribution = self.distribution(x)
            return distribution.scores(), None if labels is None else self.objective.losses(distribution, labels)
        reads_text = self.gate is not None or not all(isinstance(partition, Reranker) for partition in self.partitions)
        return FusedLogits(self.distribution, self.objective, reads_text)(self._projected(x), labels)

    def _fuses(self, x: Inputs, *, loss: bool = False) -> bool:
        """Whether this head now takes the fast path. What reads or changes every logit needs the dense one."""
        needs_dense = {
            "wbwr": self.config.method.wbwr is not None,
            "knobs": x.knobs.turned,
            "watch": self.watch is not None,
            "strict": self.strict,
            "torch.compile": not loss and torch.compiler.is_compiling(),
            "the meta device": x.q.is_meta,
        }
        reasons = [name for name, applies in needs_dense.items() if applies]
        if self.path == "fused" and reasons:
            raise ValueError(f"head.path is 'fused', and {reasons[0]} needs the dense path. Set 'auto' or 'dense'.")
        return self.path != "dense" and not reasons

    def plain(self, x: Inputs, words: Words) -> Tensor:
        """f_V . w_x: what the softmax over the vocabulary alone says about these words."""
        return x.embedding.at(self._f_V(self._projected(x), "V"), words)

    def inputs(
        self,
        states: States,
        embedding: Embedding,
        *,
        source: Source | None = None,
        past: Past | None = None,
        second_pass: SecondPass | None = None,
        knobs: Knobs | None = None,
    ) -> Inputs:
        """Hidden states become q, words become texts. Take `rows` of the result to work on some positions only.

        `knobs` are those of this call; None: those that are set on the head.
        """
        knobs = self.knobs if knobs is None else knobs
        self.check_knobs(knobs)
        validation.check_embedding(self.config, embedding, states.layers)
        validation.check_states(self.config, states, past, self._remembered())
        scans = validation.scans(states.ids, strict=self.strict)
        if scans:
            validation.scan_states(states, embedding.vocabulary)
        validation.check_parameters(self)
        own = next(self.parameters(), None)
        validation.check_dtype("layers", states.layers, own)
        if self.reads_source(knobs):
            validation.check_source(self.config, source, len(states.ids))
            assert source is not None  # or it was refused
            if scans and not (past is not None and past.source):
                validation.check_ids("source ids", source.ids, source.mask, embedding.vocabulary)
            validation.check_dtype("source states", source.states, own)
        if self.config.method.wbwr and second_pass is None:
            raise ValueError("wbwr needs second_pass: a function that gives the hidden states of candidate words.")
        if self.strict:
            validation.check_finite("layers", states.layers)
            if source is not None:
                validation.check_finite("source states", source.states)
        past = Past() if past is None else past
        start = past.known_length
        read = self.read(states, past)
        return replace(
            self._inputs(read.q, read.positions, start, past.tensors, (read.documents, read.mask), embedding, knobs),
            source=self._source(source, past) if self.reads_source(knobs) else None,
            before=read.before,
            second_pass=second_pass,
        )

    def read(self, states: States, past: Past) -> Read:
        """q of some positions, which the past remembers from now on. Nothing is checked: see `inputs`."""
        documents = _documents(states, past)
        positions = past.advance(states.ids.shape[1], states.ids.device)
        mask = torch.ones_like(states.ids, dtype=torch.bool) if states.mask is None else states.mask
        past.push(
            ids=states.ids,
            mask=mask,
            readable=mask if states.readable is None else states.readable,
            documents=documents,
        )
        windows = None
        if self.L_h is not None:
            past.push(layers=self.L_h.read(states.layers))
            layers, recent, their_documents = (
                past.recent(name, len(positions) + self.L_h.window - 1) for name in ("layers", "mask", "documents")
            )
            windows = Windows.of(layers, recent, their_documents, self.L_h.window)
        q, before = self.widen(states.layers[:, :, 0], windows)
        past.push(**self.keys(q))
        return Read(q, positions, documents, mask, before)

    def widen(self, h: Float[Tensor, "B T D"], windows: Windows | None) -> tuple[Tensor, Tensor | None]:
        """q of some positions, with Mi by way of windows of what `L_h.read` gives; and `Inputs.before` for wbwr."""
        if self.L_h is None or windows is None:
            return h, None
        q, before = self.L_h(h, windows, carry=self.config.method.wbwr is not None)
        return q, before

    def keys(self, q: Float[Tensor, "B T Q"]) -> dict[str, Float[Tensor, "B T D"]]:
        """What partitions remember of positions with these q."""
        return {name: self.L[name](q) for name in self.context_keys}

    def resume(
        self, q: Float[Tensor, "B T Q"], past: Past, embedding: Embedding, *, knobs: Knobs | None = None
    ) -> Inputs:
        """The inputs at the last T positions of a past, whose q is known: for engines, which choose rows to predict at
        after `widen` and `keys`. Not for wbwr, nor for what reads an encoder input."""
        knobs = self.knobs if knobs is None else knobs
        self.check_knobs(knobs)
        start = len(past) - q.shape[1]
        readers = past.tensors["documents"][:, start:], past.tensors["mask"][:, start:]
        positions = torch.arange(start, len(past), device=q.device)
        return self._inputs(q, positions, start, past.tensors, readers, embedding, knobs)

    def _inputs(
        self,
        q: Tensor,
        positions: Tensor,
        start: int | None,
        seen: Mapping[str, Tensor],
        readers: tuple[Tensor, Tensor],
        embedding: Embedding,
        knobs: Knobs,
    ) -> Inputs:
        """Inputs at positions that read everything seen; `readers` are their documents and which are no padding."""
        last = positions if self.config.convention == "paper" else positions - 1  # the authors' code: before itself
        context = Tokens.of(
            seen["ids"],
            seen["readable"],
            seen["documents"],
            {name: seen[name] for name in self.context_keys},
            Readers(seen["documents"], readers[0], last, readers[1]),
        )
        return Inputs(
            q=q,
            h=q[..., : self.config.hidden_size],
            positions=positions,
            start=start,
            context=context,
            source=None,
            embedding=embedding,
            L=self.L,
            L_h=self.L_h,
            knobs=knobs,
        )

    def _remembered(self) -> list[str]:
        """Names of what this head keeps in a past."""
        return ["ids", "mask", "readable", "documents", *(["layers"] if self.L_h else []), *self.context_keys]

    def _projected(self, x: Inputs) -> Inputs:
        """With every f, each computed once.

        f = L^f(q); or, in the form of differences, f_C = f_V + L^f_C(q), and so for E and R.
        """
        if x.projected:
            return x
        projected: dict[str, Tensor] = {}
        for name, L in self.L.items():
            if name not in (*self.context_keys, *self.source_keys):
                projected[name] = L(x.q, projected["V"]) if name in self.differences else L(x.q)
        return replace(x, projected=projected)

    def _f_V(self, x: Inputs, name: str) -> Tensor:
        return x.f(name) if name in self.L else x.h

    def _mix(self, x: Inputs, logits: tuple[Logits, ...]) -> Distribution:
        if self.prior is not None:
            return self.prior.distribution(x, logits)
        if self.gate is None or isinstance(self.gate, CopyNet):
            return Distribution(logits)
        distribution: Distribution = self.gate(x, logits)
        return distribution

    def _source(self, source: Source | None, past: Past) -> Tokens:
        """The encoder input as a text. Made once: a past remembers it."""
        assert source is not None
        if not past.source:
            mask = torch.ones_like(source.ids, dtype=torch.bool) if source.mask is None else source.mask
            keys = {name: self.L[name](source.states) for name in self.source_keys}
            text = Tokens.of(source.ids, mask, torch.zeros_like(source.ids), keys)
            past.source = {"ids": text.ids, "first": text.first, "readable": text.readable, **keys}
        ids, first, readable = (past.source[name] for name in ("ids", "first", "readable"))
        return Tokens(ids, first, readable, {name: past.source[name] for name in self.source_keys})


def _documents(states: States, past: Past) -> Tensor:
    """What is not said to be another document goes on with the last one."""
    if states.documents is not None:
        return states.documents
    return past.latest("documents").expand_as(states.ids) if past.tensors else torch.zeros_like(states.ids)


def _is_whole(positions: slice | Tensor, count: int) -> bool:
    """Whether these are all positions."""
    return isinstance(positions, slice) and positions.indices(count) == (0, count, 1)
