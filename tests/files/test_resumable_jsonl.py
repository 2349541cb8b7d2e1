"""ResumableJsonl: both kinds of files resume at a batch, and files of other settings or of others are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from unbottle.files import ResumableJsonl

SETTINGS = {"seed": 0, "prompts": [3, 6]}
ROWS = [{"prompt": f"{n}\u2028\r\n", "continuation": "é"} for n in range(5)]
# as the first version wrote them
HEADER = b'{"seed": 0, "prompts": [3, 6]}\n'
LINES = [f'{{"prompt": "{n}\u2028\\r\\n", "continuation": "é"}}\n'.encode() for n in range(5)]
SIDECAR = b'{\n "seed": 0,\n "prompts": [\n  3,\n  6\n ]\n}\n'


def complete(path: Path, *, sidecar: bool) -> int:
    """Write what is missing; how many rows were there."""
    with ResumableJsonl(path, SETTINGS, sidecar=sidecar) as file:
        rows = file.resume(5, 2)
        assert rows == ROWS[: len(rows)]
        for start in range(len(rows), 5, 2):
            file.append(ROWS[start : start + 2])
    return len(rows)


@pytest.mark.parametrize("sidecar", [False, True])
@pytest.mark.parametrize("lines", range(6))
@pytest.mark.parametrize("cut", [0, 9])
def test_a_file_of_the_first_version_is_resumed_at_a_batch(sidecar: bool, lines: int, cut: int, tmp_path: Path) -> None:
    path, beside = tmp_path / "rows.jsonl", tmp_path / "rows.jsonl.config.json"
    header = b"" if sidecar else HEADER
    path.write_bytes(header + b"".join(LINES[:lines]) + b"".join(LINES[lines : lines + 1])[:cut])
    if sidecar:
        beside.write_bytes(SIDECAR)
    assert complete(path, sidecar=sidecar) == (5 if lines == 5 else lines - lines % 2)
    assert path.read_bytes() == header + b"".join(LINES)
    assert (beside.read_bytes() == SIDECAR) if sidecar else not beside.exists()


@pytest.mark.parametrize("sidecar", [False, True])
def test_other_settings_are_refused_and_earlier_ones_are_not(sidecar: bool, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    complete(path, sidecar=sidecar)
    before = path.read_bytes()
    other = SETTINGS | {"seed": 1, "new": 2}
    refusal = (
        r"rows\.jsonl was written with other settings: seed was 0 and is 1 now, new was None and is 2 now\. Choose"
    )
    with pytest.raises(ValueError, match=refusal), ResumableJsonl(path, other, sidecar=sidecar) as file:
        file.resume(5, 2)
    assert path.read_bytes() == before
    with ResumableJsonl(path, other, sidecar=sidecar, earlier=SETTINGS) as file:
        assert file.resume(5, 2) == ROWS
    with ResumableJsonl(path, SETTINGS | {"prompts": (3, 6)}, earlier=other, sidecar=sidecar) as file:
        assert file.resume(5, 2) == ROWS


@pytest.mark.parametrize("sidecar", [False, True])
def test_files_of_others_are_refused(sidecar: bool, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("a text\n", encoding="utf-8")
    with (
        pytest.raises(ValueError, match="unbottle did not write it"),
        ResumableJsonl(path, SETTINGS, sidecar=sidecar) as file,
    ):
        file.resume(5, 2)
    assert path.read_text(encoding="utf-8") == "a text\n"


def test_without_a_path_rows_go_to_stdout(capsys: pytest.CaptureFixture) -> None:
    with ResumableJsonl(None, SETTINGS, sidecar=True) as file:
        assert file.resume(5, 2) == []
        file.append(ROWS[:2])
    assert [json.loads(line) for line in capsys.readouterr().out.split("\n")[:-1]] == ROWS[:2]
