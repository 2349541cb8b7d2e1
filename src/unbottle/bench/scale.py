"""Scale: one size that grows while the others stay, written T=128,256,512."""

from __future__ import annotations

from dataclasses import dataclass, replace

from unbottle.spec import Method

AXES = {"T": "positions", "V": "vocabulary", "B": "batch", "k": "words of the largest reranker partition"}


@dataclass(frozen=True)
class Scale:
    axis: str
    values: tuple[int, ...]

    @staticmethod
    def parse(text: str) -> Scale:
        axis, _, numbers = text.partition("=")
        axis = {"batch": "B", "K": "k", "t": "T", "v": "V", "b": "B"}.get(axis.strip(), axis.strip())
        values = [number.strip() for number in numbers.split(",")]
        if axis not in AXES:
            raise ValueError(f"scale {text!r}: unknown axis {axis!r}. Known: {', '.join(AXES)}, as in T=128,256,512.")
        if not all(value.isdecimal() and int(value) > 1 for value in values):
            raise ValueError(f"scale {text!r}: write whole numbers above 1, as in T=128,256,512.")
        return Scale(axis, tuple(int(value) for value in values))

    def __str__(self) -> str:
        return f"{self.axis}={','.join(map(str, self.values))}"


def with_k(method: str, k: int) -> str | None:
    """The method whose largest reranker partition has k words; smaller ones stay. None if it reranks nothing."""
    parsed = Method.parse(method)
    if not parsed.ks:
        return None
    return str(replace(parsed, ks=(*(smaller for smaller in parsed.ks[:-1] if smaller < k), k)))
