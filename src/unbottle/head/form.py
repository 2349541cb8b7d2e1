"""Form: how the projections of a head are learnt. The functions are the same, the steps of an optimizer are not."""

from __future__ import annotations

from dataclasses import dataclass

from unbottle.head.projection import WHISPER, Needs, Projection


@dataclass(frozen=True, kw_only=True)
class Form:
    """Adam moves every weight by the learning rate, whatever its gradient: a parameterisation is a learning rate.

    A full matrix then moves what it gives by the learning rate times the sum of what it reads. `scaled` divides that
    by the square root of the width, so that the learning rate of the model at hand suits its head too.
    """

    residual: bool = False  # f_C = f_V + L_C(q), and so for E and R
    unit: bool = False  # Mi reads states of length sqrt(D)
    scaled: bool = False  # f = start + L(q) / sqrt(width), L = 0; of a product only the queries start at 0
    tamed: bool = False  # what starts at nothing is divided by D^(1/4)
    mark: int | None = None  # stands beside the weights, which mean something else in another form; old forms have none

    def projection(self, need: Needs, width: int, size: int, *, bias: bool) -> Projection:
        """L^f as it starts, from `width` numbers to `size`."""
        shared = self.residual and need.kind == "partition"
        if not self.scaled:
            start = 0.0 if shared else need.start
            divisor = size**0.25 if self.tamed and start <= WHISPER else 1.0
            return Projection(width, size, start=start, bias=bias, divisor=divisor)
        divisor = width**0.5
        start = divisor / size**0.5 if need.kind == "key" else 0.0  # keys of about unit length: attaching sees to it
        return Projection(width, size, start=start, bias=bias, divisor=divisor, skip=need.kind == "vocabulary")


FORMS = {
    "scaled": Form(residual=True, unit=True, scaled=True, mark=1),
    "paper": Form(),
    "folded": Form(unit=True, mark=2),
    "residual": Form(residual=True),
    "steady": Form(residual=True, unit=True, tamed=True),
}
DEFAULT_FORM = "scaled"
OLD_NAMES = {"separate": "paper", "difference": "residual"}  # in files that older versions wrote


def current_name(form: str) -> str:
    """The name of a form today, also if an old file has its old name."""
    return OLD_NAMES.get(form, form)
