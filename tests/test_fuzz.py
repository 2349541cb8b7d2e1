"""A short, fixed slice of the fuzz targets; `make fuzz` goes on from there with new draws."""

from __future__ import annotations

import time

import pytest
import torch
from fuzz_targets import TARGETS, in_time
from hypothesis import HealthCheck, given, settings

EXAMPLES = {
    "method": 150,
    "head config": 100,
    "settings": 60,
    "aliases": 60,
    "model config": 12,
    "data": 8,
    "checkpoint": 30,
    "saved model": 25,
    "explain": 25,
    "head": 60,
}


@pytest.mark.parametrize("name", TARGETS)
def test_a_right_answer_or_one_sentence(name: str) -> None:
    target = TARGETS[name]

    @settings(
        max_examples=EXAMPLES[name],
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=[*HealthCheck],
    )
    @given(target.draws)
    def fuzzed(drawn: object) -> None:
        with in_time():
            target.check(drawn)

    fuzzed()


def test_other_errors_and_hangs_are_seen() -> None:
    """The fuzzer itself: it would say so."""
    from fuzz_targets import HangError, refusals

    for error in (KeyError("x"), RuntimeError("two\nlines"), ValueError("two\nlines"), ValueError("")):
        with pytest.raises((KeyError, RuntimeError, AssertionError)), refusals():
            raise error
    with refusals():
        raise ValueError("one sentence.")
    with pytest.raises(HangError, match=r"no answer in 0\.2 seconds of work"), in_time(0.2, waiting=1000):
        any(zero for zero in iter(int, 1))  # without end
    with pytest.raises(HangError, match=r"or 0\.2 by the clock"), in_time(0.1, waiting=2):
        time.sleep(60)
    with in_time(0.2):
        time.sleep(0.4)  # a busy machine


BATCH = {
    "method": "pg+r:1", "encoder_decoder": False, "layers": (2, 3, 1, 4), "ids": (2, 3), "source": None,
    "labels": (2, 3), "mask": None, "dtype": torch.float32, "id_dtype": torch.int64, "wrong_id": 0, "value": 0.0,
    "strict": False, "strided": False, "path": "auto",
}  # fmt: skip
ALIASES = b"report_to:\n- &a [x, x, x, x, x, x, x, x, x]\n" + b"".join(
    f"- &{new} [{', '.join([f'*{old}'] * 9)}]\n".encode() for old, new in zip("abcdefghijk", "bcdefghijkl", strict=True)
)  # 9 ** 12 values
FINDINGS: list[tuple[str, object]] = [
    ("head", BATCH),
    ("head", BATCH | {"layers": (0, 3, 1, 4), "ids": (0, 3), "labels": (0, 3)}),  # no row
    ("head", BATCH | {"layers": (2, 0, 2, 4), "ids": (2, 0), "labels": (2, 0), "method": "copynet+mi:2x5"}),
    ("head", BATCH | {"dtype": torch.float64}),
    ("head", BATCH | {"dtype": torch.int64}),
    ("head", BATCH | {"id_dtype": torch.float32}),
    ("settings", b"[" * 2000),
    ("settings", b"lr: 2020-13-45"),
    ("settings", b"lr: 1e999"),
    ("settings", b"preset: [1]"),
    ("settings", b"seed: 99999999999"),
    ("settings", ALIASES),
    ("settings", b"lr: &a [*a]"),
    ("head config", {"method": "mi:3x100000", "hidden_size": 32, "vocabulary": 61}),
    ("saved model", ({"n_embd": 10**6}, {}, None)),
    ("saved model", ({}, {"method": "softmax+c+mi:3x100000"}, None)),
    ("saved model", ({}, {}, float("nan"))),
    ("model config", '{"model_type": "gpt2", "n_embd": "x"}'),
    ("model config", '{"a":' + "[" * 100_000),
    ("data", ("data.jsonl", b"[" * 100_000)),
    ("data", ("data.jsonl.gz", b"\x1f\x8b\x08\x00\xce\xed\xfaj")),
    ("explain", ("gpt2", "the king " * 30, 5, None)),  # longer than it can read
    ("explain", ("gpt2", "\ud800", 5, None)),
    ("checkpoint", {"items": [[{"tuple": [[]]}, 1]]}),
]


@pytest.mark.parametrize(("name", "drawn"), FINDINGS, ids=range(len(FINDINGS)))
def test_findings_stay_fixed(name: str, drawn: object) -> None:
    """What once was another error, or a wrong answer."""
    TARGETS[name].check(drawn)
