"""One process at a time: the second is refused, or waits; a killed one holds nothing."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading

import pytest

from unbottle.files import LOCK, OWNER, ResumableJsonl, file_lock, folder_lock, try_lock

HOLD = """
import sys, time
folder, sys.argv[:] = sys.argv[1], ["unbottle"]  # the program, which does not import torch at once
from pathlib import Path
from unbottle.files import folder_lock
with folder_lock(Path(folder)):
    print("locked", flush=True)
    time.sleep(60)
"""


def test_a_killed_process_holds_nothing(tmp_path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == b"locked\n"
        message = rf"{tmp_path} is in use by process {holder.pid}\. Wait until it is finished, or give another output"
        with pytest.raises(ValueError, match=message), folder_lock(tmp_path):
            pass
        os.kill(holder.pid, signal.SIGKILL)
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    with folder_lock(tmp_path):
        assert (tmp_path / OWNER).read_text() == f"{os.getpid()}\n"
    assert not (tmp_path / OWNER).exists()


def test_who_waits_comes_next(tmp_path) -> None:
    order = []

    def second() -> None:
        with file_lock(tmp_path / "new" / LOCK):
            order.append("second")

    thread = threading.Thread(target=second)
    with file_lock(tmp_path / "new" / LOCK):
        thread.start()
        thread.join(0.1)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]


def without_flock(descriptor: int, operation: int) -> None:
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


@pytest.mark.filterwarnings("ignore:flock not supported on this filesystem")
def test_a_file_system_without_locks(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some network file systems have none: then a file stands for the lock."""
    monkeypatch.setattr(fcntl, "flock", without_flock)
    with folder_lock(tmp_path):
        with pytest.raises(ValueError, match=f"in use by process {os.getpid()}"), folder_lock(tmp_path):
            pass
        with try_lock(tmp_path / "row") as mine, try_lock(tmp_path / "row") as again:
            assert (mine, again) == (True, False)
    with folder_lock(tmp_path), try_lock(tmp_path / "row") as mine:
        assert mine


def test_two_processes_do_not_write_the_same_predictions(tmp_path) -> None:
    path = tmp_path / "predictions.jsonl"
    with ResumableJsonl(path, {"seed": 0}, sidecar=True) as first:
        assert first.resume(3, 1) == []
        first.append([{"prediction": "one"}])
        with (
            pytest.raises(ValueError, match=r"predictions\.jsonl: another process is writing to this file\. Wait"),
            ResumableJsonl(path, {"seed": 0}, sidecar=True) as second,
        ):
            second.resume(3, 1)
    assert path.read_text(encoding="utf-8") == '{"prediction": "one"}\n'
    with ResumableJsonl(path, {"seed": 0}, sidecar=True) as again:
        assert again.resume(3, 1) == [{"prediction": "one"}]
