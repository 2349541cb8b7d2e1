"""What was not read: counted, and told on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unbottle.eval.decoding import Prediction


class Dropped:
    """Counts predictions of texts that were cut or empty. `name` is that of the model, where there are several."""

    def __init__(self, read: str, written: str, end: str, *, name: str = "") -> None:
        self.read, self.written, self.end = read, written, end
        self.name = f"{name}: " if name else ""
        self.documents = self.cut = self.tokens = self.empty = 0

    def watch(self, found: Iterable[Prediction]) -> Iterator[Prediction]:
        for prediction in found:
            self.documents += 1
            self.cut += prediction.dropped > 0
            self.tokens += prediction.dropped
            self.empty += prediction.empty
            yield prediction

    def tell(self) -> None:
        if self.cut:
            what = f"the {self.read} is" if self.documents == 1 else f"{self.cut} of {self.documents} {self.read}s are"
            self._print(f"warning: {self.name}{what} too long: {self.tokens:,} tokens at the {self.end} were dropped.")
        if self.empty:
            what = (
                f"the {self.read} is" if self.documents == 1 else f"{self.empty} of {self.documents} {self.read}s are"
            )
            self._print(f"note: {self.name}{what} empty, and so is the {self.written}.")

    @staticmethod
    def _print(text: str) -> None:
        print(f"unbottle: {text}", file=sys.stderr)
