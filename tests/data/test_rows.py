"""Rows of files, and what is said of files that have none."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from datasets import Dataset

from unbottle.data.sources import read_rows

ROWS = [{"id": "1", "text": "a,\u2028b"}, {"id": "2", "text": 'é "q"'}]
LINES = '{"id": "1", "text": "a,\u2028b"}\n\n{"id": "2", "text": "é \\"q\\""}\r\n'


def test_every_kind(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(LINES, encoding="utf-8-sig", newline="")
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(LINES.encode()))
    (tmp_path / "a.csv").write_text('id,text\n1,"a,\u2028b"\n2,"é ""q"""\n', encoding="utf-8", newline="")
    Dataset.from_list(ROWS).to_parquet(str(tmp_path / "a.parquet"))
    for name in ("a.jsonl", "a.jsonl.gz", "a.csv", "a.parquet"):
        assert read_rows(tmp_path / name) == ROWS, name


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.jsonl", b'{"a": 1}\n{"a"', "line 2: not valid JSON"),
        ("a.jsonl", b"[1]\n", "line 1: expected a JSON object with columns, not '[1]"),
        ("a.jsonl", b"\n \n", "there is no row in it."),
        ("a.jsonl", b"\xff", "not a text in UTF-8"),
        ("a.jsonl.gz", b"nothing", "not a complete gzip file"),
        ("a.csv", b"a,b\n1\n", "row 1: not as many cells"),
        ("a.csv", b"a,b\n1,2,3\n", "row 1: not as many cells"),
        ("a.csv", b'a,b\n1,"2\n', "not a whole csv file"),
        ("a.parquet", b"nothing", "not a parquet file"),
        ("a.txt", b"x", "unknown kind of file. Known: .jsonl, .csv, .parquet, and .jsonl.gz, .csv.gz."),
    ],
)
def test_refusals(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        read_rows(tmp_path / name)
    assert said in str(caught.value)
    assert name in str(caught.value)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_rows(tmp_path / "a.jsonl")
