"""The Triton kernels compile for two generations of GPUs, without a GPU, and keep everything in registers."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

if importlib.util.find_spec("triton") is None:
    pytest.skip("Triton is not installed: make test-triton", allow_module_level=True)

KERNELS = ("block_maxima", "row_logsumexp", "row_softmax", "sampled_dots", "sampled_rows", "segment_rows")


@pytest.mark.parametrize("architecture", ["80", "90"])
def test_no_spills(architecture: str) -> None:
    """In a process of its own: in this one kernels may be interpreted."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, str(Path(__file__).parents[1] / "triton_compilation.py"), architecture]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found) == {f"{kernel} {dtype}" for kernel in KERNELS for dtype in ("fp32", "bf16")}
    for name, used in found.items():
        assert used["bytes spill stores"] == used["bytes spill loads"] == 0, f"{name}: {used}"
        assert used["registers"] > 0
