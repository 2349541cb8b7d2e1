"""A Hub that does not answer is given two seconds, not half a minute."""

from __future__ import annotations

import time

import pytest
from huggingface_hub import constants
from huggingface_hub.errors import RepositoryNotFoundError

from unbottle import hub_access
from unbottle.cli.main import main


class Session:
    def __init__(self, seconds: float = 0, status: int = 200, error: Exception | None = None) -> None:
        self.seconds, self.status_code, self.error, self.asked = seconds, status, error, 0

    def head(self, url: str, timeout: float) -> Session:
        self.asked += 1
        time.sleep(self.seconds)
        if self.error:
            raise self.error
        return self


@pytest.fixture(autouse=True)
def online(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    hub_access.reachable.cache_clear()
    yield
    hub_access.reachable.cache_clear()


@pytest.mark.parametrize(
    ("session", "answers"),
    [
        (Session(), True),
        (Session(status=404), True),
        (Session(status=503), False),
        (Session(error=RuntimeError("no route")), False),
        (Session(seconds=3), False),
    ],
)
def test_reachable(session: Session, answers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_access, "get_session", lambda: session)
    monkeypatch.setattr(hub_access, "SECONDS", 0.2)
    start = time.monotonic()
    assert hub_access.reachable() is hub_access.reachable() is answers
    assert time.monotonic() - start < 2
    assert session.asked == 1


def test_offline_inside_and_only_there(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setattr(hub_access, "get_session", lambda: Session(error=OSError()))
    with hub_access.quick_hub("gpt2"):
        assert constants.is_offline_mode()
    assert not constants.is_offline_mode()
    with hub_access.quick_hub(tmp_path):
        assert not constants.is_offline_mode()


def test_a_name_of_nothing_fails_soon(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr(hub_access, "get_session", lambda: Session(error=OSError()))
    start = time.monotonic()
    assert main(["generate", "owner/no-such-model", "--prompt", "a"]) == 2
    assert time.monotonic() - start < 5
    assert capsys.readouterr().err == (
        "unbottle: error: model 'owner/no-such-model' is no folder here, and the Hub cannot be reached. Give a folder "
        "that save_pretrained wrote, or smollm2.\n"
    )


NOT_FOUND = RepositoryNotFoundError.__new__(RepositoryNotFoundError)  # its constructor wants an answer of the Hub


@pytest.mark.parametrize(
    ("answers", "repository", "said"),
    [
        (False, None, "the Hub cannot be reached"),
        (True, NOT_FOUND, "the Hub has no public model of this name"),
        (True, TimeoutError(), ""),  # who downloads it finds out
        (True, None, ""),
    ],
)
def test_what_is_unavailable(answers, repository, said, monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    def repo_info(self, name: str, **options) -> object:
        if repository is not None:
            raise repository
        return object()

    with monkeypatch.context() as patch:
        patch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
        patch.setattr(hub_access, "reachable", lambda: answers)
        patch.setattr(hub_access.HfApi, "repo_info", repo_info)
        assert hub_access.unavailable("owner/name") == said
        (tmp_path / "models--owner--name" / "snapshots" / "1").mkdir(parents=True)
        assert hub_access.unavailable("owner/name") == ""
