"""Peak memory comes from a process of its own."""

import dataclasses
import subprocess
import sys

import pytest
from tiny_shapes import TINY

from unbottle.bench.cases import Case, Execution, HeadVariant, Point
from unbottle.bench.memory import own_peak, peak_memory, peak_of_gpu

LINUX = sys.platform == "linux"


def case(**changes: object) -> Case:
    point = {"shape": TINY, "measure": "train", "batch": 2, "length": 9} | changes
    return Case(point=Point(**point), variant=HeadVariant(method="softmax+c+mi"), execution=Execution(threads=1))


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


@pytest.mark.skipif(not LINUX, reason="elsewhere the peak of a process cannot be told from that of its parent")
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


def test_the_peak_of_a_gpu_is_that_of_its_allocator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forgotten before the run, and read when the GPU has done it."""
    import torch

    log: list[str] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: log.append("wait"))
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: log.append("forget"))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: log.append("read") or 5 * 2**20)
    assert peak_of_gpu(lambda: log.append("run")) == 5
    assert log == ["wait", "forget", "run", "wait", "read"]


def test_a_compiled_case_is_compiled_before_it_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    import io
    import json

    from unbottle.bench import memory, models, timing
    from unbottle.bench.timing import Work

    log: list[str] = []
    monkeypatch.setattr(timing, "work", lambda *args: Work(lambda: log.append("prepare"), lambda: log.append("run")))
    monkeypatch.setattr(models.Models, "model", lambda *args, **kwargs: None)
    monkeypatch.setattr(memory, "forget_peak", lambda: log.append("forget"))
    for compile in (False, True):
        given = dataclasses.replace(case(), execution=Execution(threads=1, compile=compile))
        monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(given.to_dict())))
        memory.main()
    assert log == ["prepare", "forget", "run", "prepare", "run", "prepare", "forget", "run"]
    assert "peak_mb" in capsys.readouterr().out
