"""Jobs of launched.py, all by one process that forks: imports take longer than tiny trainings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PATIENCE = 3600  # seconds; on a machine that is busy with other things a minute of work takes a while


def launch(jobs: list[dict]) -> tuple[list[list[int]], str]:
    """Exit codes of the processes of each job, and what they said."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("launched.py"))],
        input=json.dumps(jobs), capture_output=True, text=True, timeout=PATIENCE,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-5000:]
    return json.loads(done.stdout.splitlines()[-1]), done.stderr[-5000:]
