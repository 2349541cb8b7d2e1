"""Pairs of document and summary: where they come from, what is refused, what becomes of long ones."""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path

import pytest
import tiny_summaries as tiny
from datasets import Dataset, load_dataset
from tokenizers import processors
from transformers import PreTrainedTokenizerFast

from unbottle.data import NAMED, Pairs, PairSource, read_pairs
from unbottle.data import text as texts

ROWS = [
    {"id": 7, "document": "the king met Anna", "summary": "Anna"},
    {"id": 8, "document": "Zürich, \tnot Paris", "summary": "not Paris"},
]


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(tmp_path_factory.mktemp("cache"))
    monkeypatch.setattr(
        texts, "load_dataset", lambda *args, **options: load_dataset(*args, **options | {"cache_dir": folder})
    )


def write(folder: Path, name: str, rows: list[dict] = ROWS) -> Path:
    path = folder / name
    if name.endswith(".parquet"):
        Dataset.from_list(rows).to_parquet(path)
        return path
    if ".jsonl" in name:
        content = "".join(json.dumps(row) + "\n" for row in rows)
    elif ".json" in name:
        content = json.dumps(rows)
    else:
        lines = [",".join(f'"{value}"' for value in row.values()) for row in rows]
        content = "\n".join([",".join(rows[0]), *lines]) + "\n"
    path.write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())
    return path


def read(path: Path | str, **options) -> list[dict]:
    return [*read_pairs(PairSource(path=str(path), **options))]


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv", "a.parquet", "a.jsonl.gz", "a.csv.gz"])
def test_files(name: str, tmp_path: Path) -> None:
    assert read(write(tmp_path, name)) == [{**row, "id": str(row["id"])} for row in ROWS]


def test_a_folder_and_rows_without_ids(tmp_path: Path) -> None:
    bare = [{"body": row["document"], "short": row["summary"]} for row in ROWS]
    write(tmp_path, "a.jsonl", bare)
    write(tmp_path, "b.csv", bare)
    (tmp_path / "notes.txt").write_text("nothing to summarize")
    found = read(tmp_path, text_column="body", summary_column="short")
    assert [row["id"] for row in found] == ["0", "1", "2", "3"]
    assert [row["summary"] for row in found] == ["Anna", "not Paris"] * 2


def test_what_is_blank_is_left_out_and_counted(tmp_path: Path) -> None:
    blank = [{"document": " ", "summary": "x"}, {"document": "x", "summary": None}, {"document": None, "summary": "x"}]
    rows = [blank[0], {"document": "a b", "summary": "one"}, *blank[1:]]
    path = write(tmp_path, "a.jsonl", rows)
    with pytest.warns(UserWarning, match=r"a\.jsonl: 3 pairs without a document or a summary left out\."):
        found = read(path)
    assert found == [{"id": "1", "document": "a b", "summary": "one"}]
    with pytest.raises(ValueError, match="there is no pair of a document and a summary in it"):
        read(write(tmp_path, "b.jsonl", [blank[0]]))


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        ("a.jsonl", [{"text": "a", "summary": "b"}], "no column 'document'. There are: text, summary."),
        ("a.csv", [{"document": "a", "title": "b"}], "no column 'summary'. There are: document, title."),
        ("a.jsonl", [{"document": 3, "summary": "b"}], "column 'document' holds int64, and texts are needed."),
        ("a.jsonl", [{"document": "a", "summary": ["b"]}], "column 'summary' holds List, and texts are needed."),
        ("a.jsonl", [ROWS[0], ROWS[1], ROWS[0]], "rows 1 and 3 have the same id '7'."),
    ],
)
def test_refusals(name: str, rows: list[dict], message: str, tmp_path: Path) -> None:
    path = write(tmp_path, name, rows)
    with pytest.raises(ValueError) as error:  # noqa: PT011
        read(path)
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_what_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "broken.jsonl").write_text("{")
    (tmp_path / "a.txt").write_text("a text")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.txt").write_text("a text")
    for name, message in [
        ("empty.jsonl", "the file is empty"),
        ("broken.jsonl", "cannot be read as jsonl"),
        ("a.txt", "documents and summaries come in columns. Known: .jsonl, .json, .csv, .parquet, and .gz."),
        ("folder", "no table in this folder. Known: .jsonl, .json, .csv, .parquet"),
    ]:
        with pytest.raises(ValueError, match=message):
            read(tmp_path / name)
    with pytest.raises(FileNotFoundError, match=r"none: no such file or folder\. Known by name: cnn_dailymail, xsum"):
        read("none")
    with pytest.raises(FileNotFoundError, match=r"none\.jsonl: no such file or folder"):
        read(tmp_path / "none.jsonl")
    with pytest.raises(ValueError, match="'document' cannot be document and summary at once"):
        read(write(tmp_path, "a.jsonl"), summary_column="document")


@pytest.mark.parametrize("name", NAMED)
def test_by_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, named = [], NAMED[name]

    def load(*args, **options):
        asked.append((args, options))
        return Dataset.from_dict({named.text_column: ["a document"], named.summary_column: ["short"], "id": ["x"]})

    monkeypatch.setattr(texts, "load_dataset", load)
    assert read(name, split="test") == [{"id": "x", "document": "a document", "summary": "short"}]
    path, _, config = named.path.partition(":")
    wanted = {"split": "test", "streaming": False} | ({"revision": named.revision} if named.revision else {})
    assert asked == [((path, config or None), wanted)]


def test_any_hub_data_set(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Dataset.from_dict({"body": ["a document"], "summary": ["short"]})
    monkeypatch.setattr(texts, "load_dataset", lambda *args, **options: rows)
    assert read("owner/name", text_column="body")[0]["document"] == "a document"


# -- tokens


def spelled(ids: list[int]) -> str:
    return tiny.tokenizer().decode(ids)


def test_pairs_are_cut_and_counted() -> None:
    rows = [
        {"document": "the king met Anna", "summary": "the king"},
        {"document": "the king met Anna in Paris and London again", "summary": "Anna in Paris again"},
    ]
    made = Pairs(rows, tiny.tokenizer(), source_length=8, target_length=4, prefix="summarize : ")
    found = [{name: spelled(ids) for name, ids in pair.items()} for pair in made]
    assert found == [
        {"input_ids": "summarize : the king met Anna </s>", "labels": "the king </s>"},
        {"input_ids": "summarize : the king met Anna in </s>", "labels": "Anna in Paris </s>"},
    ]
    assert (made.truncated_documents, made.truncated_summaries) == (1, 1)
    assert (made.longest_source, made.longest_target, len(made)) == (8, 4, 2)
    assert spelled(made[-1]["labels"]) == found[1]["labels"]
    with pytest.raises(IndexError):
        made[2]


def test_a_tokenizer_without_an_end() -> None:
    import copy

    bare = PreTrainedTokenizerFast(
        tokenizer_object=copy.deepcopy(tiny.tokenizer()._tokenizer), eos_token="</s>", pad_token="<pad>"
    )
    bare._tokenizer.post_processor = None
    rows = [{"document": "the king", "summary": "the king met Anna"}, {"document": "Anna", "summary": "Anna"}]
    made = Pairs(rows, bare, target_length=3)
    assert [spelled(pair["labels"]) for pair in made] == ["the king </s>", "Anna </s>"]
    assert spelled(made[0]["input_ids"]) == "the king"


class Translating(PreTrainedTokenizerFast):
    """As that of a translation model: what the decoder writes ends with its language, `king`."""

    def _switch_to_target_mode(self) -> None:
        ends = [("</s>", 2), ("king", self.convert_tokens_to_ids("king"))]
        self._tokenizer.post_processor = processors.TemplateProcessing(single="$A </s> king", special_tokens=ends)

    def _switch_to_input_mode(self) -> None:
        self._tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])


def test_summaries_are_written_as_the_decoder_writes() -> None:
    plain = tiny.tokenizer()
    made = Translating(tokenizer_object=copy.deepcopy(plain._tokenizer), eos_token="</s>", pad_token="<pad>")
    pair = next(iter(Pairs([{"document": "Anna met", "summary": "the queen said"}], made, target_length=4)))
    assert plain.convert_ids_to_tokens(pair["input_ids"].tolist()) == ["Anna", "met", "</s>"]
    assert plain.convert_ids_to_tokens(pair["labels"].tolist()) == ["the", "queen", "</s>", "king"]


def test_fingerprints() -> None:
    same = tiny.pairs().fingerprint()
    assert tiny.pairs().fingerprint() == same
    assert len({same, tiny.pairs(seed=1).fingerprint(), tiny.pairs(prefix="summarize : ").fingerprint()}) == 3


def test_no_length_below_two() -> None:
    with pytest.raises(ValueError, match=r"target_length 1: give a number of at least 2\."):
        Pairs([], tiny.tokenizer(), target_length=1)
