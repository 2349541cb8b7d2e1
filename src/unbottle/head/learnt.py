"""Learnt: the modules of a head, built from its config; their forms, and the weights that are loaded into them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import nn

from unbottle.head.config import HeadConfig
from unbottle.head.mixtures import Mixture, PointerGenerator, PointerSentinel
from unbottle.head.multi_input import MultiInput
from unbottle.head.partition import PARTITIONS, Partition
from unbottle.head.partitions import CopyNet, WordByWord
from unbottle.head.pointer import Pointer
from unbottle.head.projection import FORMS, Needs, Projection

GATES: dict[str, type[PointerGenerator | PointerSentinel | CopyNet]] = {
    "pg": PointerGenerator,
    "ps": PointerSentinel,
    "copynet": CopyNet,
}

Own = TypeVar("Own", bound="Learnt")
MARK = "form"  # the name of the buffer that marks the form of the weights


class Learnt(nn.Module):
    """Everything a head learns, under the paper's letters."""

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        self.config = config
        method, size, form = config.method, config.hidden_size, config.learnt
        pointer = Pointer(source=config.encoder_decoder)
        self.softmaxes = ["V", *(f"V{k}" for k in range(2, method.softmaxes + 1))]
        self.prior = Mixture(config.q_size, method.softmaxes, scaled=form.scaled) if method.base == "mos" else None
        self.gate = GATES[method.base](size, pointer, config.gate_start) if method.base in GATES else None
        self.L_h = self._multi_input() if method.mi else None
        self.partitions = _partitions(config, self.gate)

        users: list[Partition | Pointer] = [*self.partitions]
        if method.base in ("pg", "ps"):
            users.append(pointer)
        needs = _needs(users)
        if method.base != "none":
            needs = {name: Needs(name, "vocabulary") for name in self.softmaxes} | needs
        self.differences = {name for name, need in needs.items() if form.residual and need.kind == "partition"}
        self.L = nn.ModuleDict({name: self._projection(need) for name, need in needs.items()})
        keys = {key for user in users for key in user.keys}
        self.context_keys = sorted(key for key in keys if needs[key].of == "q")
        self.source_keys = sorted(key for key in keys if needs[key].of == "source")
        if form.mark is not None:
            self.register_buffer(MARK, torch.empty((), dtype=torch.uint8))
            self.set_mark()

    def _multi_input(self) -> MultiInput:
        form, (layers, window), size = self.config.learnt, self.config.block, self.config.hidden_size
        divisor = form.divisor(layers * window * size, shared=True)
        return MultiInput(size, layers, window, unit=form.unit, divisor=divisor)

    def _projection(self, need: Needs) -> Projection:
        size = self.config.hidden_size
        width = self.config.q_size if need.of == "q" else self.config.source_size or size
        return self.config.learnt.projection(need, width, size, bias=self.config.bias)

    @torch.no_grad()
    def fold(self: Own) -> Own:
        """A head with the paper's L^f that predicts the same: no differences, nothing divided. This one stays.

        Mi that reads states of unit length goes on to do so: its form is "folded", and "paper" without such an Mi.
        """
        form = "folded" if self.L_h is not None and self.L_h.unit else "paper"
        head = type(self)(replace(self.config, form=form)).to(next(self.parameters()))
        weights = {name: tensor for name, tensor in self.state_dict().items() if name.startswith("gate.")}
        for name, L in self.L.items():
            assert isinstance(L, Projection)
            for kind, tensor in zip(("weight", "bias"), L.folded(), strict=True):
                if tensor is not None:
                    weights[f"L.{name}.{kind}"] = tensor
        for name in self.differences:
            for kind in ("weight", "bias") if self.config.bias else ("weight",):
                weights[f"L.{name}.{kind}"] = weights[f"L.{name}.{kind}"] + weights[f"L.V.{kind}"]
        if self.L_h is not None:
            weights |= {"L_h.weight": self.L_h.weight / self.L_h.divisor, "L_h.bias": self.L_h.bias}
        if self.prior is not None:
            weights |= {f"prior.{name}": p / self.prior.divisor for name, p in self.prior.named_parameters()}
        head.load_state_dict(dict(head.named_buffers()) | weights)
        return head

    def set_mark(self) -> None:
        """The mark of the form, beside the weights."""
        if (mark := self.config.learnt.mark) is not None:
            self.get_buffer(MARK).fill_(mark)

    def reset_projections(self) -> None:
        """L^f as they start, in the dtype they have now."""
        for projection in self.L.values():
            assert isinstance(projection, Projection)
            projection.reset_parameters()

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Refuses weights of another form: their names and shapes are the same. An adapter of PEFT has no config.

        Weights of a form that differs in its `lead` only are rescaled: they predict what they predicted.
        """
        if any(name.startswith(prefix) for name in state_dict):
            mark = state_dict.get(prefix + MARK)
            there, form = None if mark is None else int(mark), self.config.learnt
            known = {name: other for name, other in FORMS.items() if other.mark == there}
            alike = [other for other in known.values() if replace(other, lead=form.lead, mark=form.mark) == form]
            if alike:
                self._rescale(state_dict, prefix, alike[0].lead / form.lead)
            elif there != form.mark:
                names = " or ".join(map(repr, known))
                raise ValueError(
                    f"these weights are of a head in the form {names or 'of a newer unbottle'}, and this "
                    f"head has the form {self.config.form!r}. Attach with the form that they were trained in: "
                    "attach(model, method, form=...)."
                )
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _rescale(self, state_dict: dict[str, Any], prefix: str, factor: float) -> None:
        """Weights of what is divided by `factor` times more here than where they were learnt."""
        if factor == 1.0:
            return
        names = [f"L.{name}.{kind}" for name in self.softmaxes for kind in ("weight", "bias")] + ["L_h.weight"]
        for name in names:
            if (weight := state_dict.get(prefix + name)) is not None:
                state_dict[prefix + name] = weight * factor
        state_dict[prefix + MARK] = self.get_buffer(MARK).clone()


def _needs(users: list[Partition | Pointer]) -> dict[str, Needs]:
    """The projections that are asked for. One name, one projection."""
    needs: dict[str, Needs] = {}
    for need in (need for user in users for need in user.needs):
        if needs.setdefault(need.name, need) != need:
            raise ValueError(f"projection {need.name!r} is asked for as {needs[need.name]} and as {need}.")
    return needs


def _partitions(config: HeadConfig, gate: nn.Module | None) -> list[Partition]:
    """Partitions in the order in which they write. Hybrids are order, not code."""
    chosen = [partition for letter in config.method.letters for partition in PARTITIONS[letter](config)]
    if isinstance(gate, CopyNet):
        chosen.append(gate)
    if config.method.wbwr:
        chosen.append(WordByWord(config.method.wbwr))
    return sorted(chosen, key=lambda partition: partition.order)
