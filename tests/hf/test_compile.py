"""torch.compile: a head brings no graph breaks, and the compiled model computes the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FAST = ("training step", ["gpt2 softmax+cpr:5,20+mi"])
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
FULL = ("forward,training step", EVERY)


@pytest.mark.parametrize(("passes", "cases"), [FAST, pytest.param(*FULL, marks=pytest.mark.full)], ids=["fast", "full"])
def test_a_head_brings_no_graph_breaks(passes, cases):
    paths = os.pathsep.join([str(HERE), *sys.path])
    program = [sys.executable, str(HERE / "compiled.py"), passes, *cases]
    run = subprocess.run(program, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": paths}, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    reports = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    assert len(reports) == len(cases)
    for found in reports:
        for what in passes.split(","):
            assert found[what]["head"] <= found[what]["plain"], found
            assert found[what]["difference"] < 1e-4, found
            assert found[what]["fused"] == (what == "training step"), found
