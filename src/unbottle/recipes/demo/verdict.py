"""verdict: is CPR better than softmax here? What the numbers say, whatever it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from statistics import fmean
from typing import Any

from unbottle.recipes.paired import Paired, Windows, paired


@dataclass(frozen=True, kw_only=True)
class Verdict(Paired):
    """The first is CPR, the second softmax."""

    @property
    def is_better(self) -> bool:
        """The claim: with every seed."""
        return self.wins == len(self.first)

    def to_dict(self) -> dict[str, Any]:
        losses = {"softmax": self.second, "cpr": self.first, "low": self.low, "high": self.high}
        return losses | {"wins": self.wins, "is_better": self.is_better, "said": str(self)}

    def __str__(self) -> str:
        softmax, cpr = exp(fmean(self.second)), exp(fmean(self.first))
        numbers = f"perplexity {cpr:.2f} against {softmax:.2f} of the softmax head ({cpr / softmax - 1:+.1%})"
        where = "on text that neither head was trained on, after the same training on the same data"
        return f"{self._claim()}: {numbers}, {where}. {self._how_often()}{self._drawn_again()}"

    def _claim(self) -> str:
        if self.is_better:
            return "CPR is better here" if self.high is None or self.high < 0 else "CPR is slightly better here"
        return "CPR is NOT better here" if self.wins == 0 else "It is undecided here"

    def _how_often(self) -> str:
        if len(self.first) == 1:
            return f"CPR {'won' if self.wins else 'lost'} with the one seed that was tried: --seeds 3 tries more."
        return f"CPR won with {self.wins} of {len(self.first)} seeds."

    def _drawn_again(self) -> str:
        if self.low is None or self.high is None:
            return ""
        sure = "" if self.high < 0 or self.low > 0 else ", which includes no difference at all"
        return f" Drawing the held-out windows again, 95 % of the differences are {self.interval}{sure}."


def verdict(softmax: Sequence[Windows], cpr: Sequence[Windows]) -> Verdict:
    """From the losses of each held-out window, for each seed; the same windows and seeds for both."""
    return Verdict(**vars(paired(cpr, softmax)))
