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


DECODED = [
    "gpt2 softmax+cpr:5,20+mi",
    "llama ps+mi",
    "llama mos+mi",
    "llama pg",
    "llama copynet",
    "t5 s+cepr:20+mi",
]


def reports_of(program: str, *arguments: str) -> list[dict]:
    """What a program of this folder printed, in a process without the shape checks of the test run."""
    paths = os.pathsep.join([str(HERE), *sys.path])
    command = [sys.executable, str(HERE / program), *arguments]
    run = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": paths}, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    return [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]


@pytest.mark.full  # compiling takes longer than everything else about a model
def test_a_head_brings_no_graph_breaks():
    reports = reports_of("compiled.py", PASSES, *EVERY)
    assert len(reports) == len(EVERY)
    for found in reports:
        for what in PASSES.split(","):
            assert found[what]["head"] <= found[what]["plain"], found
            assert found[what]["difference"] < 1e-4, found
            assert found[what]["fused"] == (what == "training step"), found


@pytest.mark.full
def test_decoding_from_a_static_cache_may_be_a_cuda_graph():
    reports = reports_of("compiled_decoding.py", *DECODED)
    assert len(reports) == len(DECODED)
    for found in reports:
        plain, head = found["plain"], found["head"]
        assert head["graphs"] <= plain["graphs"], found
        assert sum(head["breaks"].values()) <= sum(plain["breaks"].values()), found
        assert len(head["refusals"]) <= len(plain["refusals"]), found
        assert head["same"], found
