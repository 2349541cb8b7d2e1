"""Atomic writes, and folders that cannot be written."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from unbottle.files import read_json, replace_folder, writable_folder, write_json


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        writable_folder(tmp_path / "file" / "folder")
    writable_folder(tmp_path / "new" / "folder")
    assert list((tmp_path / "new" / "folder").iterdir()) == []


def test_json_is_replaced_as_a_whole(tmp_path: Path) -> None:
    write_json(tmp_path / "new" / "data.json", {"a": 1})
    with pytest.raises(TypeError, match="not JSON serializable"):
        write_json(tmp_path / "new" / "data.json", {"a": object()})
    assert read_json(tmp_path / "new" / "data.json") == {"a": 1}
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["data.json"]
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(ValueError, match=r"broken\.json is not valid JSON .*: it was edited\. Use another"):
        read_json(tmp_path / "broken.json")


def test_a_folder_takes_the_place_of_another(tmp_path: Path) -> None:
    for name, content in (("first", "1"), ("second", "2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(content)
        replace_folder(tmp_path / name, tmp_path / "final")
    assert (tmp_path / "final" / "file").read_text() == "2"
    assert [path.name for path in tmp_path.iterdir()] == ["final"]


class Windows:
    """Its `os`: a folder cannot be opened, and only what is open for writing is written out."""

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def open(self, path: Path, flags: int) -> int:
        if path.is_dir():
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return os.open(path, flags)

    def fsync(self, handle: int) -> None:
        if fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        os.fsync(handle)


def test_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unbottle.files.WINDOWS", True)
    monkeypatch.setattr("unbottle.files.os", Windows())
    test_json_is_replaced_as_a_whole(tmp_path / "json")
    (tmp_path / "folder").mkdir()
    test_a_folder_takes_the_place_of_another(tmp_path / "folder")
