"""scripts/soak.py: a server that keeps something of each request fails, one that fills its caches does not."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from served_models import METHODS, needs_vllm, perturbed

pytest.importorskip("httpx")

SCRIPT = Path(__file__).parents[2] / "scripts" / "soak.py"
LEAK = """
import torch
from unbottle.serve.request_knobs import RequestKnobs

kept = []


class Leak(RequestKnobs):
    def update_state(self, batch_update):
        super().update_state(batch_update)
        kept.extend(torch.ones(6000) for _ in (batch_update.added if batch_update else ()))  # 24 kB for each request
"""


def test_growth() -> None:
    growth = runpy.run_path(str(SCRIPT))["growth"]
    filled = [min(mark, 20) * 10**6 for mark in range(40)]
    assert growth(filled, 2000) == 0
    assert growth([total + 50 * 1000 * mark for mark, total in enumerate(filled)], 2000) == pytest.approx(1000)
    assert growth([], 0) == 0


@needs_vllm
@pytest.mark.full
@pytest.mark.timeout(900)
def test_a_leak_is_found(tmp_path: Path) -> None:
    """Caches of the server are full after 400 requests: a leak is seen as what it is only in a run of more."""
    perturbed("llama", METHODS[0]).save_pretrained(tmp_path / "model")
    (tmp_path / "leak.py").write_text(LEAK)
    line = [sys.executable, str(SCRIPT), str(tmp_path / "model"), "--requests", "1000", "--log", str(tmp_path / "log")]
    result = subprocess.run(
        [*line, "--logits-processors", "leak:Leak"],
        env=os.environ | {"PYTHONPATH": str(tmp_path), "VLLM_ENABLE_V1_MULTIPROCESSING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1, result.stderr
    report = json.loads(result.stdout)
    assert report["answers"] + report["cancelled"] == 1000
    assert [report[name] for name in ("wrong", "failed", "errors")] == [0, 0, []]
    assert [*report["leaks"]] == ["VLLM::Worker"], report
    assert report["leaks"]["VLLM::Worker"] > 20_000, report
