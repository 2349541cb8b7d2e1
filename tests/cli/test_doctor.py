"""unbottle doctor: what is here, what is not, and what then."""

from __future__ import annotations

import importlib.metadata
import json

import pytest

from unbottle import hub_access
from unbottle.cli import doctor
from unbottle.cli.main import main


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_access, "reachable", lambda: False)


def run(capsys: pytest.CaptureFixture, code: int = 0) -> dict[str, dict]:
    assert main(["doctor", "--json"]) == code
    answer = json.loads(capsys.readouterr().out)
    assert answer["healthy"] is (code == 0)
    return {check["name"]: check for check in answer["checks"]}


def without(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = importlib.metadata.version

    def version(package: str) -> str:
        if package == name:
            raise importlib.metadata.PackageNotFoundError(package)
        return before(package)

    monkeypatch.setattr(importlib.metadata, "version", version)


def test_what_is_here(capsys) -> None:
    checks = run(capsys)
    for name in ("torch", "transformers"):
        assert checks[name] | {"detail": ""} == {
            "name": name, "status": "ok", "detail": "", "purpose": "", "remedy": "", "needed": True,
        }  # fmt: skip
        assert checks[name]["detail"] == importlib.metadata.version(name)
    assert {"python", "extra train", "spaCy model en_core_web_sm", "lm_eval", "browser", "gguf", "disk", "cores"} <= {
        *checks
    }
    assert "extra dev" not in checks


def test_a_missing_extra_is_no_failure(capsys, monkeypatch) -> None:
    without("peft", monkeypatch)
    check = run(capsys)["extra train"]
    assert (check["status"], check["remedy"]) == ("missing", "pip install 'unbottle[train]'")
    assert "lacks peft" in check["purpose"]
    assert "accelerate" in check["detail"]


def test_a_missing_package_is(capsys, monkeypatch) -> None:
    without("safetensors", monkeypatch)
    check = run(capsys, 1)["safetensors"]
    assert (check["status"], check["remedy"]) == ("missing", "pip install 'safetensors'")


def test_an_old_package_is(capsys, monkeypatch) -> None:
    before = importlib.metadata.version
    monkeypatch.setattr(
        importlib.metadata, "version", lambda name: "4.57.0" if name == "transformers" else before(name)
    )
    check = run(capsys, 1)["transformers"]
    assert check["detail"] == "4.57.0"
    assert "transformers<6,>=5.12" in check["remedy"]


def test_an_old_python_is(capsys, monkeypatch) -> None:
    wanted = importlib.metadata.metadata("unbottle")["Requires-Python"]
    monkeypatch.setattr(doctor.platform, "python_version", lambda: "3.9.1")
    check = run(capsys, 1)["python"]
    assert (check["status"], check["detail"]) == ("missing", "3.9.1")
    assert check["remedy"] == f"make an environment with Python {wanted}"


def test_for_people(capsys, monkeypatch) -> None:
    monkeypatch.setattr(doctor, "DISK", 1e18)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: "/usr/bin/firefox" if name == "firefox" else None)
    without("lm_eval", monkeypatch)
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "ok browser firefox" in lines
    assert lines[lines.index("missing lm_eval") + 1] == "unbottle eval lm-eval: pip install 'lm_eval[hf]'"
    assert any(line.startswith("low disk") for line in lines)
    assert "missing Hugging Face Hub" in lines
    assert lines[-1].startswith("Everything required is installed.")
    without("torch", monkeypatch)
    assert main(["doctor"]) == 1
    assert "Required, but missing: torch." in capsys.readouterr().out
