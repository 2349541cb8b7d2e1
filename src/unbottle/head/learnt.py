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
        self.L_h = MultiInput(size, *config.block, unit=form.unit, scaled=form.scaled) if method.mi else None
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
        """Refuses weights of another form: their names and shapes are the same. An adapter of PEFT has no config."""
        if any(name.startswith(prefix) for name in state_dict):
            mark = state_dict.get(prefix + MARK)
            there = None if mark is None else int(mark)
            if there != self.config.learnt.mark:
                known = [repr(name) for name, form in FORMS.items() if form.mark == there]
                raise ValueError(
                    f"these weights are of a head in the form {' or '.join(known) or 'of a newer unbottle'}, and this "
                    f"head has the form {self.config.form!r}. Attach with the form that they were trained in: "
                    "attach(model, method, form=...)."
                )
        super()._load_from_state_dict(state_dict, prefix, *args)


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
