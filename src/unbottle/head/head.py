"""Head: the output layer. The five lines of the data flow are `forward` and `distribution`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from unbottle.head import check
from unbottle.head.bases import Mixture, PointerGenerator, PointerSentinel
from unbottle.head.config import HeadConfig
from unbottle.head.distribution import Distribution, check_labels
from unbottle.head.embedding import Embedding
from unbottle.head.fused import FusedLoss
from unbottle.head.inputs import Inputs, SecondPass
from unbottle.head.knobs import COPYING, Knobs
from unbottle.head.multi_input import MultiInput, Windows
from unbottle.head.objective import Objective
from unbottle.head.partition import PARTITIONS, Partition
from unbottle.head.partitions import CopyNet, WordByWord
from unbottle.head.past import Past
from unbottle.head.pointer import Pointer
from unbottle.head.products import Products
from unbottle.head.projection import WHISPER, Needs, Projection
from unbottle.head.states import Source, States
from unbottle.head.tokens import Tokens
from unbottle.ops import DenseLogits, Logits, Tape, Words, Workspace, Write
from unbottle.spec import LETTERS

GATES: dict[str, type[PointerGenerator | PointerSentinel | CopyNet]] = {
    "pg": PointerGenerator,
    "ps": PointerSentinel,
    "copynet": CopyNet,
}

Watch = Callable[[Inputs, Distribution], None]


class Head(nn.Module):
    """An output layer of the paper: hidden states and words in, a distribution over the next word out.

    Parameters carry the paper's letters: `L["V"]`, `"C"`, `"E"`, `"PD"`, `"LD"`, `"PE"`, `"LE"`, `"R1"`, `"R2"`, ...
    (MoS: `"V"`, `"V2"`, `"V3"`; wbwR: `"R"`), `L_h` (Mi), `prior` (MoS), `gate` (PG, PS, CopyNet).
    """

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        self.config = config
        self.strict = False  # also refuse NaN and infinity; costs a pass over the hidden states and logits
        self.watch: Watch | None = None  # is shown every prediction
        self.path: Literal["auto", "fused", "dense"] = "auto"  # fused where it can be; dense is the readable reference
        self.objective = Objective()
        self.workspace = Workspace()
        self._knobs = Knobs()
        method, size = config.method, config.hidden_size
        pointer = Pointer(source=config.encoder_decoder)
        self.softmaxes = ["V", *(f"V{k}" for k in range(2, method.softmaxes + 1))]
        self.prior = Mixture(config.q_size, method.softmaxes) if method.base == "mos" else None
        self.gate = GATES[method.base](size, pointer) if method.base in GATES else None
        self.L_h = MultiInput(size, *config.block, unit=config.is_steady) if method.mi else None
        self.partitions = _partitions(config, self.gate)

        users: list[Partition | Pointer] = [*self.partitions]
        if method.base in ("pg", "ps"):
            users.append(pointer)
        needs = _needs(users)
        if method.base != "none":
            needs = {name: Needs(name) for name in self.softmaxes} | needs
        self.differences = {name for name, need in needs.items() if config.shares and need.scores_words}
        self.L = nn.ModuleDict({name: self._projection(need) for name, need in needs.items()})
        keys = {key for user in users for key in user.keys}
        self.context_keys = sorted(key for key in keys if needs[key].of == "q")
        self.source_keys = sorted(key for key in keys if needs[key].of == "source")

    @property
    def reads_source(self) -> bool:
        """Whether this head needs the encoder input."""
        letters = self.config.method.letters
        needed = bool(self.source_keys) or any(LETTERS[letter].needs_source for letter in letters)
        return needed or (self.config.encoder_decoder and self.knobs.source_only)

    @property
    def knobs(self) -> Knobs:
        """What is turned while this head predicts; set it for inference, set `Knobs()` to train."""
        return self._knobs

    @knobs.setter
    def knobs(self, knobs: Knobs) -> None:
        copies = self.gate is not None or any(partition.name in COPYING for partition in self.partitions)
        if knobs.turned and not copies:
            raise ValueError(
                f"{knobs}: method {str(self.config.method)!r} has nothing to copy. "
                "Knobs are for methods with c, e or p, and for pg, ps and copynet."
            )
        self._knobs = knobs

    def forward(
        self,
        states: States,
        embedding: Embedding,
        *,
        source: Source | None = None,
        past: Past | None = None,
        second_pass: SecondPass | None = None,
    ) -> Distribution:
        """The distribution over the next word at each position. A `past` is read, then remembers these positions."""
        return self.distribution(self.inputs(states, embedding, source=source, past=past, second_pass=second_pass))

    def distribution(self, x: Inputs, logits: Callable[[Tensor], Logits] | None = None) -> Distribution:
        """Logits of the vocabulary, partitions in order, softmax. `logits` makes those of the vocabulary from f_V."""
        x = self._projected(x)
        logits = logits or (lambda f: DenseLogits(x.embedding.logits(f)))
        first, *others = (logits(self._f_V(x, name)) for name in self.softmaxes)
        if self.strict:
            for each in (first, *others):
                check.check_numbers("logits", each.values)
        first_stage = None
        for partition in self.partitions:
            if isinstance(partition, WordByWord):
                first_stage = self._mix(x, (first, *others))
            words = partition.words(x, first)
            now = first.at(words)
            scores = partition.score(x, words, now)
            if self.strict:
                check.check_numbers(f"score of {partition.name}", scores.where(words.present, 0))
            first = first.overwrite(Write(partition.name, words, now, scores))
        distribution = replace(self._mix(x, (first, *others)), first_stage=first_stage)
        if self.knobs.turned:
            self.knobs.refuse_training(self.training)
            distribution = self.knobs.turn(distribution, x, self.gate)
        if self.watch is not None:
            self.watch(x, distribution)
        return distribution

    def loss(
        self, x: Inputs, labels: Shaped[Tensor, "B T"], count: Tensor | float | int
    ) -> tuple[Float[Tensor, ""], Float[Tensor, "B T"]]:
        """Sum of the losses divided by `count`, and the losses. Without the logits, where the head can do without."""
        if not self.fuses(x):
            losses = self.objective.losses(self.distribution(x), labels)
            return losses.sum() / count, losses
        check_labels(labels, x.q.shape[:2], x.embedding.weight.shape[0])
        x = self._projected(x)
        parameters = [p for module in (self.gate, self.prior) if module is not None for p in module.parameters()]
        dtype = torch.promote_types(x.q.dtype, torch.float32)
        weights = 1 / torch.as_tensor(count, dtype=dtype, device=labels.device)
        in_place = not self.objective.label_smoothing or self.config.method.base not in ("mos", "pg", "ps")
        records = torch.is_grad_enabled()
        loss = FusedLoss(self.distribution, parameters, self.objective, self.workspace, records, in_place)
        return loss(x, labels, weights.expand(labels.shape))

    @torch.no_grad()
    def predict(self, x: Inputs) -> Distribution:
        """`distribution` for inference: its logits are written over, step by step, not copied."""
        if not self.fuses(x):
            return self.distribution(x)
        lend = functools.partial(torch.empty, device=x.q.device)
        products = Products(x.embedding, Tape(records=False), lambda *shape: lend(shape[:2], dtype=shape[2]))
        return self.distribution(x, products.logits)

    def fuses(self, x: Inputs) -> bool:
        """Whether this head now takes the fast path. What reads or changes every logit needs the dense one."""
        needs_dense = {
            "wbwr": self.config.method.wbwr is not None,
            "knobs": self.knobs.turned,
            "watch": self.watch is not None,
            "strict": self.strict,
            "torch.compile": torch.compiler.is_compiling(),
            "the meta device": x.q.is_meta,
        }
        if self.path == "fused" and (found := [name for name, is_so in needs_dense.items() if is_so]):
            raise ValueError(f"head.path is 'fused', and {found[0]} needs the dense path. Set 'auto' or 'dense'.")
        return self.path != "dense" and not any(needs_dense.values())

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
    ) -> Inputs:
        """Hidden states become q, words become texts. Take `rows` of the result to work on some positions only."""
        check.check_embedding(self.config, embedding)
        vocabulary = embedding.weight.shape[0]
        check.check_states(self.config, states, past, vocabulary, self._remembered())
        own = next(self.parameters(), None)
        check.check_dtype("layers", states.layers, own)
        if self.reads_source:
            check.check_source(self.config, source, len(states.ids), vocabulary)
            assert source is not None  # or it was refused
            check.check_dtype("source states", source.states, own)
        if self.config.method.wbwr and second_pass is None:
            raise ValueError("wbwr needs second_pass: a function that gives the hidden states of candidate words.")
        if self.strict:
            check.check_finite("layers", states.layers)
            if source is not None:
                check.check_finite("source states", source.states)
        past = Past() if past is None else past
        documents = _documents(states, past)
        positions = past.advance(states.ids.shape[1], states.ids.device)
        mask = torch.ones_like(states.ids, dtype=torch.bool) if states.mask is None else states.mask
        seen = past.push(
            ids=states.ids,
            mask=mask,
            readable=mask if states.readable is None else states.readable,
            documents=documents,
        )
        h = states.layers[:, :, 0]
        q, before = h, None
        if self.L_h is not None:
            history = past.push(layers=self.L_h.read(states.layers))["layers"]
            windows = Windows.of(history, seen["mask"], seen["documents"], positions, self.L_h.window)
            q = self.L_h.q(h, windows.products(self.L_h))
            before = windows.products(self.L_h, later=1) if self.config.method.wbwr else None
        keys = past.push(**{name: self.L[name](q) for name in self.context_keys})
        visible = self._visible(seen, positions) & mask[..., None]
        return Inputs(
            q=q,
            h=h,
            positions=positions,
            context=Tokens.of(seen["ids"], seen["readable"], seen["documents"], visible, keys),
            source=self._source(source, past),
            embedding=embedding,
            L=self.L,
            L_h=self.L_h,
            before=before,
            second_pass=second_pass,
        )

    def reset_projections(self) -> None:
        """L^f as they start, in the dtype they have now."""
        for projection in self.L.values():
            assert isinstance(projection, Projection)
            projection.reset_parameters()

    def _remembered(self) -> list[str]:
        """Names of what this head keeps in a past."""
        return ["ids", "mask", "readable", "documents", *(["layers"] if self.L_h else []), *self.context_keys]

    def _projection(self, need: Needs) -> Projection:
        size = self.config.hidden_size
        width = self.config.q_size if need.of == "q" else self.config.source_size or size
        start = 0.0 if need.name in self.differences else need.start
        divisor = size**0.25 if self.config.is_steady and start <= WHISPER else 1.0
        return Projection(width, size, start=start, bias=self.config.bias, divisor=divisor)

    def _projected(self, x: Inputs) -> Inputs:
        """With every f, each computed once.

        f = L^f(q); or, in the form of differences, f_C = f_V + L^f_C(q), and so for E and R.
        """
        if x.projected:
            return x
        projected: dict[str, Tensor] = {}
        for name, L in self.L.items():
            if name not in (*self.context_keys, *self.source_keys):
                projected[name] = projected["V"] + L(x.q) if name in self.differences else L(x.q)
        return replace(x, projected=projected)

    def _f_V(self, x: Inputs, name: str) -> Tensor:
        return x.f(name) if name in self.L else x.h

    def _mix(self, x: Inputs, logits: tuple[Logits, ...]) -> Distribution:
        if self.prior is not None:
            return self.prior.distribution(x, logits)
        if self.gate is None or isinstance(self.gate, CopyNet):
            return Distribution(logits)
        return self.gate.distribution(x, logits)

    def _visible(self, seen: dict[str, Tensor], positions: Tensor) -> Tensor:
        """Which tokens each position reads: up to itself (the authors' code: before itself), of its document."""
        columns = torch.arange(seen["ids"].shape[1], device=positions.device)
        last = positions[:, None] if self.config.convention == "paper" else positions[:, None] - 1
        here = seen["documents"][:, positions]
        return (columns <= last) & seen["readable"][:, None] & (seen["documents"][:, None] == here[..., None])

    def _source(self, source: Source | None, past: Past) -> Tokens | None:
        """The encoder input as a text. Made once: a past remembers it."""
        if not self.reads_source:
            return None
        assert source is not None
        if not past.source:
            mask = torch.ones_like(source.ids, dtype=torch.bool) if source.mask is None else source.mask
            keys = {name: self.L[name](source.states) for name in self.source_keys}
            text = Tokens.of(source.ids, mask, torch.zeros_like(source.ids), mask[:, None], keys)
            past.source = {"ids": text.ids, "first": text.first, "visible": text.visible, **keys}
        ids, first, visible = (past.source[name] for name in ("ids", "first", "visible"))
        return Tokens(ids, first, visible, {name: past.source[name] for name in self.source_keys})


def _needs(users: list[Partition | Pointer]) -> dict[str, Needs]:
    """The projections that are asked for. One name, one projection."""
    needs: dict[str, Needs] = {}
    for need in (need for user in users for need in user.needs):
        if needs.setdefault(need.name, need) != need:
            raise ValueError(f"projection {need.name!r} is asked for as {needs[need.name]} and as {need}.")
    return needs


def _documents(states: States, past: Past) -> Tensor:
    """What is not said to be another document goes on with the last one."""
    if states.documents is not None:
        return states.documents
    nothing = torch.zeros_like(states.ids)
    return nothing + past.latest("documents") if past.tensors else nothing


def _partitions(config: HeadConfig, gate: nn.Module | None) -> list[Partition]:
    """Partitions in the order in which they write. Hybrids are order, not code."""
    chosen = [partition for letter in config.method.letters for partition in PARTITIONS[letter](config)]
    if isinstance(gate, CopyNet):
        chosen.append(gate)
    if config.method.wbwr:
        chosen.append(WordByWord(config.method.wbwr))
    return sorted(chosen, key=lambda partition: partition.order)
