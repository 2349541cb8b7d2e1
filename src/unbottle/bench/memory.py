"""Peak memory of a case in a process of its own: `python -m unbottle.bench.memory` reads the case as JSON on stdin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from unbottle.bench.cases import HEAD, Case

STATUS = Path("/proc/self/status")
# Makes glibc return freed memory at once. By default it keeps some hundred MB, more or fewer each run, and the peak
# would be what the allocator kept, not what was in use.
RETURN_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**20)}


def peak_memory(case: Case) -> float:
    """The peak memory in MB of a process that runs a case once.

    On a CPU that of the process, with weights and Python; on a GPU that of torch's allocator, with weights.
    """
    command = [sys.executable, "-m", "unbottle.bench.memory"]
    child = subprocess.run(
        command,
        input=json.dumps(case.to_dict()),
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | RETURN_MEMORY,
    )
    if child.returncode != 0:
        reason = (child.stderr.strip().splitlines() or [f"exit code {child.returncode}, killed?"])[-1]
        raise RuntimeError(f"peak memory of {case.variant.name}, {case.point.title}: the process failed: {reason}")
    peak: float = json.loads(child.stdout.splitlines()[-1])["peak_mb"]
    return peak


def forget_peak() -> None:
    """Reset `own_peak`, since building a model may take more than using it. Linux only."""
    if STATUS.exists():
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def own_peak() -> float:
    """The peak memory of this process in MB: VmHWM on Linux, since ru_maxrss is inherited from the parent process."""
    if STATUS.exists():
        line = next(line for line in STATUS.read_text(encoding="ascii").splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1024**2 if sys.platform == "darwin" else peak / 1024


def main() -> None:
    import torch

    from unbottle.bench.models import Models
    from unbottle.bench.timing import work

    case = Case.of(json.load(sys.stdin))
    torch.set_num_threads(case.execution.threads)
    models = Models(case.point.shape, positions=case.point.positions, execution=case.execution)
    todo = work(models.model(case.variant, head_alone=case.point.measure in HEAD), case.point)
    if case.execution.on_gpu or case.execution.compile:  # libraries and the compiler take memory at first use
        todo.prepare()
        todo.run()
    todo.prepare()
    print(json.dumps({"peak_mb": peak_of_gpu(todo.run) if case.execution.on_gpu else peak_of_process(todo.run)}))


def peak_of_process(run: Callable[[], object]) -> float:
    forget_peak()
    run()
    return own_peak()


def peak_of_gpu(run: Callable[[], object]) -> float:
    import torch

    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    run()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() / 2**20


if __name__ == "__main__":
    main()
