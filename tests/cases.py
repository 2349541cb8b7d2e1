"""Random heads with random inputs, for the library and for the oracle alike."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import oracle
import torch
from torch import Tensor

from unbottle.head import Embedding, Head, HeadConfig, Past, Source, States
from unbottle.method import PAPER_METHODS, Method

VOCABULARY, SIZE = 13, 4
SMALL_KS = {20: 3, 100: 6}  # the paper's k, shrunk to a vocabulary of thirteen words
SCALED = ("balanced", "scaled")  # forms that start at the plain model and divide by the square root of a width
COMBINATIONS = (
    "none",
    "mos:2+cr:5+mi:2x2",
    "softmax+r:1,4,9",
    "pg+cr:2",
    "ps+c+mi:1x2",
    "mos:2+p",
    "softmax+cpr:2",
    "mos:2+cp+wbwr:3",
    "softmax+cepr:2,7+mi:2x3",
    "mos:2+cep",
    "pg+e",
    "ps+cer:3",
    "copynet+mi",
    "softmax+er:2+wbwr:4+mi",
    "softmax+i",
    "mos:2+cpir:2,5+mi",
    "ps+ci",
    "softmax+cepi",
    "softmax+k",
    "mos:2+ckpr:2,5+mi",
)


def shrunk(name: str) -> str:
    """A method of the paper with ks that fit a small vocabulary."""
    method = Method.parse(name)
    ks = tuple(SMALL_KS.get(k, k) for k in method.ks)
    return str(replace(method, ks=ks, wbwr=SMALL_KS[method.wbwr] if method.wbwr else None))


def every_method() -> list[tuple[str, bool]]:
    """Each method of the paper and some of the rest of the grammar, on each kind of model that takes it."""
    names = dict.fromkeys([*(shrunk(name) for name in PAPER_METHODS), *COMBINATIONS])
    return [(name, kind) for name in names for kind in (False, True) if kind or "e" not in Method.parse(name).letters]


@dataclass(kw_only=True)
class Shape:
    """What hypothesis plays with."""

    ids: list[list[int]]
    mask: list[list[bool]]
    readable: list[list[bool]]
    documents: list[list[int]]
    source_ids: list[list[int]]
    source_mask: list[list[bool]]


def random_shape(seed: int, batch: int = 2, positions: int = 5, tokens: int = 4) -> Shape:
    """Repeated words, padding on either side, a document boundary, a start token that may not be read."""
    generator = torch.Generator().manual_seed(seed)

    def draw(high: int, *size: int) -> Tensor:
        return torch.randint(0, high, size, generator=generator)

    mask = torch.ones(batch, positions, dtype=torch.bool)
    mask[0, -1] = positions < 2
    mask[-1, 0] = positions < 2
    readable = mask & (draw(6, batch, positions) > 0)
    documents = (torch.arange(positions) >= draw(positions + 1, batch, 1)).long()
    source_mask = torch.ones(batch, tokens, dtype=torch.bool)
    source_mask[0, -1] = False
    return Shape(
        ids=draw(VOCABULARY // 2, batch, positions).tolist(),
        mask=mask.tolist(),
        readable=readable.tolist(),
        documents=documents.tolist(),
        source_ids=draw(VOCABULARY // 2, batch, tokens).tolist(),
        source_mask=source_mask.tolist(),
    )


class Case:
    """A head in float64 with parameters far from their start, its inputs, and the same for the oracle."""

    def __init__(
        self,
        method: str,
        encoder_decoder: bool,
        shape: Shape,
        *,
        seed: int = 0,
        convention: str = "paper",
        form: str = "paper",
        quirks: bool = False,
        exact: bool = False,
    ) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.exact = exact
        self.config = HeadConfig(
            method=Method.parse(method),
            hidden_size=SIZE,
            vocabulary=VOCABULARY,
            encoder_decoder=encoder_decoder,
            source_size=SIZE + 1,
            convention=convention,
            form=form,
        )
        self.head = Head(self.config).double()
        with torch.no_grad():
            for parameter in self.head.parameters():
                parameter.copy_(self._draw(*parameter.shape) * (1 if exact else 0.7))
        self.shape = shape
        batch, positions = len(shape.ids), len(shape.ids[0])
        self.layers = self._draw(batch, positions, self.config.block[0], SIZE).requires_grad_()
        self.weight = self._draw(VOCABULARY, SIZE).requires_grad_()
        self.source_states = self._draw(batch, len(shape.source_ids[0]), SIZE + 1).requires_grad_()
        self.embedding = Embedding(
            weight=self.weight,
            bias=self._draw(VOCABULARY).requires_grad_() if quirks else None,
            scale=0.5 if quirks else 1.0,
            softcap=3.0 if quirks and not exact else None,
        )
        self.table = self._draw(VOCABULARY, self.config.block[0], SIZE)
        self.mixing = self._draw(SIZE, SIZE)

    def _draw(self, *size: int) -> Tensor:
        """Normal numbers; or halves and integers, whose products are exact, so that equal logits are equal bits."""
        if self.exact:
            return torch.randint(-2, 3, size, generator=self.generator).double() / 2
        return torch.randn(size, generator=self.generator, dtype=torch.float64)

    @property
    def leaves(self) -> dict[str, Tensor]:
        """Everything a gradient may reach."""
        inputs = {"layers": self.layers, "weight": self.weight, "source_states": self.source_states}
        if self.embedding.bias is not None:
            inputs["bias"] = self.embedding.bias
        return dict(self.head.named_parameters()) | inputs

    def states(self, positions: slice = slice(None)) -> States:
        at = {
            name: torch.tensor(getattr(self.shape, name))[:, positions]
            for name in ("ids", "mask", "readable", "documents")
        }
        return States(layers=self.layers[:, positions], **at)

    @property
    def source(self) -> Source | None:
        if not self.config.encoder_decoder:
            return None
        ids = torch.tensor(self.shape.source_ids, dtype=torch.long)
        mask = torch.tensor(self.shape.source_mask, dtype=torch.bool)
        return Source(states=self.source_states, ids=ids, mask=mask)

    def second_pass(self, words, f_R: Tensor, positions: Tensor) -> Tensor:
        place = positions.double()[None, :, None, None, None] / 10
        return torch.tanh(self.table[words.ids] + (f_R @ self.mixing)[:, :, None, None] + place)

    def _candidate(self, b: int, t: int, word: int, f_R: Tensor) -> Tensor:
        return torch.tanh(self.table[word] + f_R @ self.mixing + t / 10)

    def oracle(self) -> oracle.Case:
        method, encoder = self.config.method, self.config.encoder_decoder
        return oracle.Case(
            base=method.base,
            letters=method.letters,
            ks=method.ks,
            mi=method.mi_block(encoder_decoder=encoder),
            wbwr=method.wbwr,
            softmaxes=method.softmaxes,
            convention=self.config.convention,
            neighbours=self.config.neighbours,
            encoder_decoder=encoder,
            unit=self.config.form in ("balanced", "scaled", "folded", "steady"),
            parameters=self._parameters(),
            weight=self.weight,
            bias=self.embedding.bias,
            scale=self.embedding.scale,
            softcap=self.embedding.softcap,
            layers=self.layers,
            ids=self.shape.ids,
            mask=self.shape.mask,
            readable=self.shape.readable,
            documents=self.shape.documents,
            source_ids=self.shape.source_ids if encoder else None,
            source_mask=self.shape.source_mask if encoder else None,
            source_states=self.source_states if encoder else None,
            candidates=self._candidate,
        )

    def _parameters(self) -> dict[str, Tensor]:
        """As the equations have them, whatever the form in which they are learnt."""
        given, form = dict(self.head.named_parameters()), self.config.form
        found = given | {name: given[name] / divisor for name, divisor in self._divisors(given).items()}
        if form in SCALED:
            for name in ("L.V.weight", "L.V2.weight", "L.V3.weight"):
                if name in found:
                    found[name] = found[name] + torch.eye(*found[name].shape, dtype=torch.float64)
        if form not in ("paper", "folded"):
            for name, kind in itertools.product(("C", "E", "K", "R1", "R2", "R3"), ("weight", "bias")):
                if f"L.{name}.{kind}" in found:
                    found[f"L.{name}.{kind}"] = found[f"L.{name}.{kind}"] + found[f"L.V.{kind}"]
        return found

    def _divisors(self, given: dict[str, Tensor]) -> dict[str, float]:
        """By what each parameter is divided: by the square root of its width, or some by D^(1/4)."""
        if self.config.form in SCALED:
            widths = {name.rpartition(".")[0]: weight.shape[-1] for name, weight in given.items() if weight.ndim == 2}
            names = {name for name in given if name.startswith(("L.", "prior."))} | ({"L_h.weight"} & set(given))
            lead = 4.0 if self.config.form == "balanced" else 1.0
            leading = {name for name in names if name.startswith(("L.V", "L_h."))}
            return {name: widths[name.rpartition(".")[0]] ** 0.5 / (lead if name in leading else 1) for name in names}
        if self.config.form == "steady":
            tamed = ("C", "E", "K", "R1", "R2", "R3", "PD", "LD", "PE", "LE", "I1", "I2")
            return {name: SIZE**0.25 for name in given if name.startswith("L.") and name.split(".")[1] in tamed}
        return {}

    def whole(self) -> Iterator:
        yield self.head(self.states(), self.embedding, source=self.source, second_pass=self.second_pass).distribution

    def chunks(self, size: int = 2) -> Iterator:
        x = self.head.inputs(self.states(), self.embedding, source=self.source, second_pass=self.second_pass)
        for start in range(0, len(self.shape.ids[0]), size):
            yield self.head.distribution(x.rows(slice(start, start + size)))

    def steps(self, prompt: int = 1) -> Iterator:
        """A prompt, then token by token."""
        past, positions = Past(), len(self.shape.ids[0])
        for start, end in zip([0, *range(prompt, positions)], [*range(prompt, positions), positions], strict=True):
            yield self.head(
                self.states(slice(start, end)),
                self.embedding,
                source=self.source,
                past=past,
                second_pass=self.second_pass,
            ).distribution


PATHS = {
    "whole": Case.whole,
    "chunks": Case.chunks,
    "tokens": Case.steps,
    "prompt": lambda case: case.steps(3),
}
