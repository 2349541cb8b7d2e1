"""Peak memory comes from a process of its own."""

import subprocess
import sys

import pytest
from tiny_shapes import TINY

from unbottle.bench.cases import Case, HeadVariant, Point
from unbottle.bench.memory import own_peak, peak_memory

LINUX = sys.platform == "linux"


def case(**changes: object) -> Case:
    point = {"shape": TINY, "measure": "train", "batch": 2, "length": 9} | changes
    return Case(point=Point(**point), variant=HeadVariant(method="softmax+c+mi"), threads=1)


def test_a_case_survives_the_way_to_its_process() -> None:
    import json

    assert Case.of(json.loads(json.dumps(case().to_dict()))) == case()


def test_peak_of_a_case() -> None:
    assert 50 < peak_memory(case()) < 3000


@pytest.mark.parametrize(
    ("stderr", "code", "reason"),
    [("Traceback ...\n  File ...\nKeyError: 'speed'\n", 1, "KeyError: 'speed'"), ("", -9, "exit code -9, killed?")],
)
def test_a_failure_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch, stderr: str, code: int, reason: str) -> None:
    failed = subprocess.CompletedProcess([], code, stdout="", stderr=stderr)
    monkeypatch.setattr(subprocess, "run", lambda *args, **kwargs: failed)
    with pytest.raises(RuntimeError) as error:
        peak_memory(case())
    assert str(error.value) == f"peak memory of softmax+c+mi, train: the process failed: {reason}"


@pytest.mark.skipif(not LINUX, reason="elsewhere the peak of a process can not be told from that of its parent")
def test_the_peak_is_not_that_of_the_parent() -> None:
    """And building is forgotten: 300 MB here, 200 MB in the child before it starts, 100 MB that count."""
    parent = bytearray(b"x") * (300 << 20)
    code = (
        "from unbottle.bench.memory import forget_peak, own_peak\n"
        "data = bytearray(b'x') * (200 << 20); del data\n"
        "forget_peak()\n"
        "data = bytearray(b'x') * (100 << 20)\n"
        "print(own_peak())"
    )
    # argv[0] is -c here, so all of unbottle would be imported: the program's name keeps it out
    code = f"import sys; sys.argv[0] = 'unbottle'\n{code}"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 100 < float(child.stdout) < 190
    assert own_peak() > len(parent) >> 20
