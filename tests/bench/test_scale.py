"""One size that grows."""

import pytest

from unbottle.bench.cases import Scale, with_k


def test_parse() -> None:
    assert Scale.parse("T=128,256, 512") == Scale("T", (128, 256, 512))
    assert Scale.parse("batch=2,4") == Scale("B", (2, 4))
    assert str(Scale.parse("k=20,100")) == "k=20,100"


@pytest.mark.parametrize(
    ("text", "said"), [("X=2", "unknown axis 'X'. Known: T, V, B, k"), ("T=2,a", "whole numbers"), ("T", "whole"),
                       ("T=1", "above 1"), ("T=-4", "whole numbers")],
)  # fmt: skip
def test_refusals(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Scale.parse(text)


@pytest.mark.parametrize(
    ("method", "k", "expected"),
    [
        ("softmax+cpr:20,100+mi", 500, "softmax+cpr:20,500+mi"),
        ("softmax+cpr:20,100+mi", 20, "softmax+cpr:20+mi"),
        ("softmax+cpr:20,100+mi", 7, "softmax+cpr:7+mi"),
        ("s+r:20", 50, "softmax+r:50"),
        ("softmax+c", 50, None),
    ],
)
def test_with_k(method: str, k: int, expected: str | None) -> None:
    assert with_k(method, k) == expected
