"""Where data are and which parts they have; what is nowhere is refused before anything is imported or downloaded."""

from __future__ import annotations

from pathlib import Path

import pytest
from byte_pairs import byte_pairs
from datasets import Dataset

from unbottle import hub_access as reach
from unbottle.data import TextSource, read_texts
from unbottle.data import text as texts
from unbottle.data.sources import NAMED, Part, check_place, parts_of
from unbottle.experiments.corpora import Corpus

TEXT = "one two three four five six seven eight nine ten " * 40


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, str]]:
    """Data sets on a hub that is made up: name, split, text."""
    held: dict[str, dict[str, str]] = {}
    monkeypatch.setattr(texts, "get_dataset_split_names", lambda name, config: [*held[name]])
    monkeypatch.setattr(
        texts,
        "load_dataset",
        lambda name, config, *, split, **options: Dataset.from_dict({"text": [held[name][split]]}),
    )
    return held


def test_a_data_set_with_one_split_is_cut(hub) -> None:
    hub["owner/web"] = {"train": TEXT}
    assert parts_of("owner/web") == {"train": Part("owner/web", "train")}
    corpus = Corpus.read("owner/web", byte_pairs(TEXT))
    sizes = [len(part) for part in (corpus.train, corpus.valid, corpus.test)]
    assert [round(size / sum(sizes), 2) for size in sizes] == [0.96, 0.02, 0.02]


def test_a_part_that_is_there_is_not_cut(hub) -> None:
    hub["owner/two"] = {"train": TEXT, "dev": "eleven twelve"}
    assert parts_of("owner/two") == {"train": Part("owner/two", "train"), "valid": Part("owner/two", "dev")}
    tokenizer = byte_pairs(TEXT)
    corpus = Corpus.read("owner/two", tokenizer)
    assert tokenizer.decode(corpus.valid) == "eleven twelve"
    whole = len(corpus.train) + len(corpus.test)
    assert [round(len(part) / whole, 2) for part in (corpus.train, corpus.test)] == [0.98, 0.02]


def test_a_data_set_without_training_text(hub) -> None:
    hub["owner/test"] = {"test": TEXT}
    with pytest.raises(ValueError, match=r"owner/test: no split 'train' to learn from. There are: test\."):
        parts_of("owner/test")


def test_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A known name is a data set on the hub, unless a folder here is called so."""
    asked = []

    def load(name, config, *, split, **options):
        asked.append((name, config, split))
        return Dataset.from_dict({"text": ["a text"]})

    monkeypatch.setattr(texts, "load_dataset", load)
    monkeypatch.chdir(tmp_path)
    for part in parts_of("wikitext-2").values():
        read_texts(TextSource(path=part.path, split=part.split))
    assert asked == [("Salesforce/wikitext", "wikitext-2-raw-v1", split) for split in ("train", "validation", "test")]
    (tmp_path / "wikitext-2").mkdir()
    for part in ("train", "valid", "test"):
        (tmp_path / "wikitext-2" / f"{part}.txt").write_text(f"{part} here")
    read = [*read_texts(TextSource(path=parts_of("wikitext-2")["test"].path))]
    assert read == [{"text": "test here"}]
    assert len(asked) == 3


def test_the_standard_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    files = [row["text"] for row in read_texts(TextSource(path="python"))]
    assert len(files) > 100
    assert any("class ArgumentParser" in text for text in files)
    (tmp_path / "python").mkdir()
    (tmp_path / "python" / "mine.txt").write_text("my own")
    assert [*read_texts(TextSource(path="python"))] == [{"text": "my own"}]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (
            "no.txt",
            "no.txt: no such file or folder. Known by name: wikitext-2, wikitext-103, openwebtext, wikipedia, python;",
        ),
        ("a/b/c", "a/b/c: no such file or folder. Known by name"),
        ("owner/name", r"owner/name: no such file or folder, and no data set on the hub that can be read \(the Hub"),
        ("wikitext-2", r"wikitext-2 \(Salesforce/wikitext on the hub\): no such file or folder, and no data set"),
    ],
)
def test_what_is_nowhere(path: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reach, "cached", lambda name, kind: False)
    monkeypatch.setattr(reach, "reachable", lambda: False)
    with pytest.raises(FileNotFoundError, match=said):
        check_place(path)
    check_place("python")
    check_place(str(tmp_path))


def test_a_file_of_an_unknown_kind(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_text("a")
    with pytest.raises(ValueError, match=r"a.pdf: unknown kind of file. Known: \.txt"):
        check_place(str(tmp_path / "a.pdf"))


def test_pairs_have_names_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "unavailable", lambda name, kind: "")
    check_place("samsum", NAMED)
    with pytest.raises(FileNotFoundError, match="Known by name: cnn_dailymail"):
        check_place("sansum", NAMED)
