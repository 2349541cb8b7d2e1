"""A short slice of scripts/kill_test.py: real commands, killed at random moments, leave what unbroken ones leave."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "kill_test.py"


@pytest.mark.full  # at chosen moments: test_resume.py
@pytest.mark.parametrize(
    "options",
    [["--kills", "3", "--steps", "24", "--save-every", "3"], ["--kills", "2", "--reproduce"]],
    ids=["train lm", "reproduce"],
)
def test_killed_commands_lose_nothing(options: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--fork", *options], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "different from the unbroken run: nothing, bit for bit"
    assert f"{options[1]} kills, " in done.stdout
