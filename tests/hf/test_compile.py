"""torch.compile: a head brings no graph breaks, and the compiled model computes the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
EVERY = [
    "gpt2 softmax+cpr:5,20+mi",
    "t5 s+cepr:20+mi",
    "llama softmax+cpr:5,20+mi packed",
    "llama ps+mi",
    "llama mos+mi",
    "llama pg",
    "llama copynet",
    "gemma2 softmax+cpr:5,20+mi",
    "bart s+cepr:20+mi:2x2",
    "bart pg",
]
PASSES = "forward,training step"


@pytest.mark.full  # compiling takes longer than everything else about a model
def test_a_head_brings_no_graph_breaks():
    paths = os.pathsep.join([str(HERE), *sys.path])
    program = [sys.executable, str(HERE / "compiled.py"), PASSES, *EVERY]
    run = subprocess.run(program, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": paths}, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    reports = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    assert len(reports) == len(EVERY)
    for found in reports:
        for what in PASSES.split(","):
            assert found[what]["head"] <= found[what]["plain"], found
            assert found[what]["difference"] < 1e-4, found
            assert found[what]["fused"] == (what == "training step"), found
