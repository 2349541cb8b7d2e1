"""Texts from files and folders, and what is refused."""

from __future__ import annotations

import gc
import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from datasets import Dataset, IterableDataset, load_dataset

from unbottle.data import TextSource, read_texts
from unbottle.data import text as texts

WORDS = ["the king\nand the queen", "Zürich, \tnot Paris"]


pytestmark = [  # datasets leaves a csv file open that it streams
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Exception ignored:pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What datasets keeps of files goes to a folder of this test, and what it leaves open is closed here."""
    folder = str(tmp_path_factory.mktemp("cache"))
    monkeypatch.setattr(
        texts, "load_dataset", lambda *args, **options: load_dataset(*args, **options | {"cache_dir": folder})
    )
    yield
    gc.collect()


def write(folder: Path, name: str, rows: list[str] = WORDS, column: str = "text") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if ".jsonl" in name:
        content = "".join(json.dumps({"number": 3, column: row}) + "\n" for row in rows)
    elif ".json" in name:
        content = json.dumps([{column: row} for row in rows])
    elif ".csv" in name:
        content = f"{column},number\n" + "".join(f'"{row}",3\n' for row in rows)
    elif ".parquet" in name:
        Dataset.from_dict({column: rows}).to_parquet(path)
        return path
    else:
        content = "".join(rows)
    path.write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())
    return path


def found(path: Path, **options) -> list[str]:
    read = read_texts(TextSource(path=str(path), **options))
    assert isinstance(read, IterableDataset if options.get("streaming") else Dataset)
    assert (read.column_names or ["text"]) == ["text"]
    return [row["text"] for row in read]


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("name", ["a.txt", "a.raw", "a.md", "a.py", "a.txt.gz", "A.TXT"])
def test_a_plain_file_is_one_document(name: str, streaming: bool, tmp_path: Path) -> None:
    assert found(write(tmp_path, name), streaming=streaming) == ["".join(WORDS)]


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv", "a.parquet", "a.jsonl.gz", "a.csv.gz"])
def test_a_row_is_a_document(name: str, streaming: bool, tmp_path: Path) -> None:
    assert found(write(tmp_path, name, column="body"), column="body", streaming=streaming) == WORDS


def test_a_folder_is_read_in_order(tmp_path: Path) -> None:
    for name in ("b/2.txt", "b/10.jsonl", "a.txt", ".hidden/c.txt", "picture.png", "c.parquet"):
        write(tmp_path, name)
    whole = "".join(WORDS)
    assert found(tmp_path) == [whole, *WORDS, whole, *WORDS]  # a.txt, b/10.jsonl, b/2.txt, c.parquet
    assert found(tmp_path, streaming=True) == [whole, *WORDS, whole, *WORDS]


def test_a_long_file_is_streamed_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unbottle.data.sources.BLOCK", 7)
    path = write(tmp_path, "long.txt", ["Zürich ist schön, Genève aussi. "] * 9)
    pieces = found(path, streaming=True)
    assert len(pieces) > 9
    assert "".join(pieces) == path.read_text(encoding="utf-8")
    assert found(path) == ["".join(pieces)]


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfhello")
    assert found(tmp_path / "a.txt") == ["hello"]


def test_rows_without_a_text_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "one"}\n{"text": null}\n{"text": "two"}\n')
    assert found(path) == found(path, streaming=True) == ["one", "two"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"", "there is no text in it"),
        ("a.txt", b" \n ", "there is no text in it"),
        ("a.txt", b"abc\0def", "a binary file (it holds NUL bytes), not a text in UTF-8"),
        ("a.txt", b"abc\xff\xfedef", "not a text in UTF-8"),
        ("a.txt", b"abc\xc3", "not a text in UTF-8"),
        ("a.txt.gz", b"abc", "not a complete gzip file"),
        ("a.txt.gz", gzip.compress(b"a long text " * 99, mtime=0)[:-9], "not a complete gzip file"),
        ("a.jsonl", b"", "the file is empty"),
        ("a.jsonl", b"not json\n", "cannot be read as jsonl"),
        ("a.jsonl", b'{"text": ""}\n', "there is no text in it"),
        ("a.jsonl", b'{"body": "x", "title": "y"}\n', "no column 'text'. There are: body, title."),
        ("a.jsonl", b'{"text": 3}\n', "column 'text' holds int64, and texts are needed"),
        ("a.jsonl", b'{"text": ["x"]}\n', "column 'text' holds List, and texts are needed"),
        ("a.parquet", b"PAR1 no more", "cannot be read as parquet"),
        ("a.pdf", b"%PDF", "unknown kind of file. Known: .txt"),
    ],
)
def test_refusals(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError) as error:  # noqa: PT011
        read_texts(TextSource(path=str(path)))
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such file or folder"):
        read_texts(TextSource(path=str(tmp_path / "none.txt")))
    with pytest.raises(ValueError, match="no file with text in this folder"):
        read_texts(TextSource(path=str(tmp_path)))


def test_a_hub_data_set(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def load(*args, **options):
        asked.append((args, options))
        return Dataset.from_dict({"text": WORDS, "title": ["a", "b"]})

    monkeypatch.setattr(texts, "load_dataset", load)
    read = read_texts(TextSource(path="owner/name:small", split="validation"))
    assert [row["text"] for row in read] == WORDS
    assert asked == [(("owner/name", "small"), {"split": "validation", "streaming": False})]


def test_a_hub_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*args, **options):
        raise ConnectionError("Couldn't reach\nthe hub")

    monkeypatch.setattr(texts, "load_dataset", load)
    with pytest.raises(FileNotFoundError, match=r"owner/name: no such file or folder, and no data set on the hub"):
        read_texts(TextSource(path="owner/name"))
