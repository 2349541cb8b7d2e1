"""unbottle app: what it refuses before anything is loaded, and what it warns of."""

from __future__ import annotations

import importlib.util
import json
import socket
from pathlib import Path

import pytest

from unbottle.cli import app as module
from unbottle.cli.app import is_loopback
from unbottle.cli.main import main
from unbottle.cli.models import short_names


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list:
    """As if Gradio were installed, and without a server."""
    found: list = []
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(module, "show", lambda paths, **options: found.append((paths, options)))
    return found


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Models that are there, as far as a name tells."""
    for name in ("a", "b", "nowhere"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)


def test_only_this_machine_by_default(shown: list, capsys: pytest.CaptureFixture) -> None:
    assert main(["app", "a", "b"]) == 0
    assert shown == [(["a", "b"], {"host": "127.0.0.1", "port": None, "open_page": False})]
    assert capsys.readouterr().err == ""


def test_a_warning_where_others_can_reach_it(shown: list, capsys: pytest.CaptureFixture) -> None:
    assert main(["app", "a", "--host", "0.0.0.0", "--port", "8000", "--open"]) == 0
    assert shown == [(["a"], {"host": "0.0.0.0", "port": 8000, "open_page": True})]
    err = capsys.readouterr().err
    assert err.startswith("unbottle: warning: --host 0.0.0.0: others in the network can use these models")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["runs/demo/softmax/model", "runs/demo/cpr/model"], ["softmax", "cpr"]),
        (["smollm2", "runs/cpr/model/"], ["smollm2", "cpr"]),
        (["a/cpr/model", "b/cpr/model"], ["a/cpr", "b/cpr"]),
        (["owner/name", "model"], ["name", "model"]),
        (["runs/cpr", "runs/cpr"], ["runs/cpr", "runs/cpr"]),
    ],
)
def test_models_have_names(paths: list[str], names: list[str]) -> None:
    assert short_names(paths) == names


def test_loopback() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.1.2", "example.org", "")))


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "Missing argument 'MODEL'"),
        (["a", "b", "c", "d", "e"], "5 models: at most 4 fit side by side."),
        (["a", "--port", "70000"], "--port 70000: expected a number from 1 to 65535."),
    ],
)
def test_refusals(args: list[str], said: str, shown: list, capsys: pytest.CaptureFixture) -> None:
    assert main(["app", *args]) == 2
    assert said in capsys.readouterr().err
    assert shown == []


def test_without_gradio(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["app", "nowhere"]) == 2
    assert capsys.readouterr().err == (
        "unbottle: error: the page needs Gradio, which is not installed. Get it with: pip install 'unbottle[app]'\n"
    )


@pytest.mark.parametrize("taken", [True, False], ids=["a port of someone else", "an address of someone else"])
def test_where_nothing_can_listen(taken: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    """Said before the model is looked for."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        where = ["--port", str(port)] if taken else ["--host", "192.0.2.1"]  # no machine has that one
        assert main(["app", "nowhere", *where]) == 2
    said = capsys.readouterr().err
    assert said.splitlines()[-1].startswith(
        f"unbottle: error: --host {'127.0.0.1 --port ' + str(port) if taken else '192.0.2.1'}: nothing"
    )
    assert "Loading" not in said


def test_dry_run(capsys: pytest.CaptureFixture) -> None:
    assert main(["app", "nowhere", "--dry-run"]) == 0
    settings = json.loads(capsys.readouterr().out)["settings"]
    assert settings == {"models": ["nowhere"], "host": "127.0.0.1", "port": None, "open": False}
