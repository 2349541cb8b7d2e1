"""scripts/audit.py: a vulnerability fails the build, a service that cannot be reached does not."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from pathlib import Path

import pytest

PLACE = Path(__file__).parents[1] / "scripts" / "audit.py"
BAD = {"name": "leaky", "version": "1.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.1"]}]}
GOOD = {"name": "fine", "version": "2.0", "vulns": []}
UNKNOWN = {"name": "own", "skip_reason": "not on the index"}


@pytest.fixture
def audit():
    spec = importlib.util.spec_from_file_location("audit", PLACE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("out", "err", "code", "said"),
    [
        (
            json.dumps({"dependencies": [GOOD, UNKNOWN]}),
            "",
            0,
            "2 packages, 0 known vulnerabilities; it does not know own",
        ),
        (json.dumps({"dependencies": [UNKNOWN]}), "", 0, "knows none of 1 packages. Nothing was checked."),
        (json.dumps({"dependencies": [GOOD, BAD]}), "Found 1", 1, "leaky 1.0: PYSEC-1, fixed in 1.1"),
        ("", "urllib3\nrequests.exceptions.ConnectionError: no route", 0, "cannot be reached. Nothing was checked"),
        ("", "No module named pip_audit", 1, "failed (No module named pip_audit)"),
    ],
)
def test_what_it_says(audit, out, err, code, said, monkeypatch, capsys) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *args, **options: subprocess.CompletedProcess(args, 1, out, err))
    assert audit.main("pins.txt") == code
    assert said in capsys.readouterr().out


def test_a_slow_service(audit, monkeypatch, capsys) -> None:
    def slow(*args, **options):
        raise subprocess.TimeoutExpired(args, 1)

    monkeypatch.setattr(subprocess, "run", slow)
    assert audit.main("pins.txt") == 0
    assert "Nothing was checked" in capsys.readouterr().out
