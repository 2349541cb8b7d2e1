"""The text: files in three parts that share none, windows that never mix two files."""

from __future__ import annotations

from pathlib import Path

import pytest
from byte_pairs import byte_pairs

from unbottle.data.text import LEFT_OUT, read
from unbottle.experiments.corpora import standard_library


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty files; the text of each says which file it is."""
    root = tmp_path_factory.mktemp("library")
    for number in range(40):
        letter = chr(ord("A") + number % 26) + chr(ord("A") + number // 26)
        (root / f"module_{number}.py").write_text(f"{letter} " * 800)
    (root / "small.py").write_text("x = 1\n")
    (root / "test").mkdir()
    (root / "test" / "test_large.py").write_text("y = 2\n" * 800)
    (root / "latin.py").write_bytes(b"# caf\xe9\n" * 400)
    return root


def test_no_file_is_in_two_parts(library: Path) -> None:
    found = standard_library(library)
    listed = [path for part in found.parts.values() for path in part]
    assert len(listed) == len({*listed}) == 41  # without what is small and what is a test
    assert all(found.parts.values())
    assert standard_library(library).parts == found.parts


def test_the_part_of_a_file_does_not_depend_on_the_others(library: Path, tmp_path: Path) -> None:
    (tmp_path / "module_7.py").write_text("z " * 2000)
    (part,) = (name for name, paths in standard_library(tmp_path).parts.items() if paths)
    assert library / "module_7.py" in standard_library(library).parts[part]


def test_windows_are_of_one_file_each(library: Path) -> None:
    tokenizer = byte_pairs()
    windows, files = standard_library(library).windows("train", tokenizer, length=50, tokens=801, per_file=3)
    assert len(windows) == 17  # the least that holds so many tokens
    assert files == 6
    texts = [tokenizer.decode(windows[place]["input_ids"]) for place in range(len(windows))]
    assert all(len({*text.split()} - {""}) <= 3 for text in texts)  # two letters and what is cut at the ends
    assert len({text.split()[1] for text in texts}) == 6


def test_too_little_text_is_refused(library: Path) -> None:
    with pytest.raises(ValueError, match="tokens for the part 'test', and 9,000,000 are needed"):
        standard_library(library).windows("test", byte_pairs(), length=50, tokens=9_000_000, per_file=3)


def test_other_encodings_are_no_loss(library: Path) -> None:
    assert read(library / "latin.py").startswith("# caf")


def test_another_library_has_another_fingerprint(library: Path, tmp_path: Path) -> None:
    (tmp_path / "module_7.py").write_text("z " * 2000)
    assert (
        standard_library(library).fingerprint()
        == standard_library(library).fingerprint()
        != standard_library(tmp_path).fingerprint()
    )


def test_this_python_has_enough_of_it() -> None:
    found = standard_library()
    assert min(len(paths) for paths in found.parts.values()) > 20
    assert not any(
        {*path.relative_to(found.root).parts} & {*LEFT_OUT} for paths in found.parts.values() for path in paths
    )
