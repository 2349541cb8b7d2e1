"""unbottle summarize: texts and jsonl in, summaries out, and nothing else on stdout."""

from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path

import pytest
import tiny_summaries as tiny
import tiny_training
from command_lines import run_command

from unbottle.eval import Decoding, predictions

TEXT = "the king met Anna in Paris"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny.saved(tmp_path_factory.mktemp("model"))


def run(capsys: pytest.CaptureFixture, *args: str, code: int = 0) -> tuple[str, str]:
    return run_command(capsys, "summarize", *args, code=code)


def expected(documents: list[str], **options) -> list[str]:
    made = tiny.model("bart", "s+cepr:20", seed=1, shake=0.4)
    decoding = Decoding(**{"max_length": 8} | options)
    return [found.text for found in predictions(made, tiny.tokenizer(), documents, decoding)]


def test_a_text(model: str, tmp_path: Path, capsys, monkeypatch) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    given = ("--model", model, "--max-length", "8")
    for sampling in ("greedy", "beams", "top-k"):
        (wanted,) = expected([TEXT], sampling=sampling)
        assert run(capsys, str(tmp_path / "a.txt"), *given, "--sampling", sampling) == (f"{wanted}\n", "")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    assert run(capsys, "-", *given)[0] == f"{wanted}\n"
    out, err = run(capsys, str(tmp_path / "a.txt"), *given, "--output", str(tmp_path / "new" / "b.txt"))
    assert (out, err) == ("", f"Written to {tmp_path / 'new' / 'b.txt'}\n")
    assert (tmp_path / "new" / "b.txt").read_text() == f"{wanted}\n"


def test_long_and_empty_texts(model: str, tmp_path: Path, capsys, monkeypatch) -> None:
    (tmp_path / "long.txt").write_text("the king " * 30)
    (tmp_path / "empty.txt").touch()
    given = ("--model", model, "--max-length", "8")
    err = run(capsys, str(tmp_path / "long.txt"), *given)[1]
    assert err == "unbottle: warning: the document is too long: 29 tokens at the end were dropped.\n"
    out, err = run(capsys, str(tmp_path / "empty.txt"), *given)
    assert (out, err) == ("\n", "unbottle: note: the document is empty, and so is the summary.\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xfe")))
    assert "stdin: not a text in UTF-8" in run(capsys, "-", *given, code=2)[1]


def rows() -> list[dict]:
    found = [{"id": row["id"], "body": row["document"], "note": "Zürich"} for row in tiny.rows(7, seed=3)]
    return [*found[:3], {"body": ""}, {"body": None}, {"body": "the king " * 20}, *found[3:]]


def test_many_documents_go_on_after_a_break(model: str, tmp_path: Path, capsys) -> None:
    path = tmp_path / "in.jsonl.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows()).encode()))
    given = (str(path), "--model", model, "--max-length", "8", "--text-column", "body", "--batch", "3")
    output = tmp_path / "out" / "found.jsonl"
    out, err = run(capsys, *given, "--output", str(output))
    assert out == ""
    assert "100%" in err
    assert "warning: 1 of 10 documents are too long: 9 tokens at the end were dropped." in err
    assert "note: 2 of 10 documents are empty" in err
    whole = output.read_bytes()
    found = [json.loads(line) for line in whole.decode().splitlines()]
    texts = expected([row["body"] or "" for row in rows()], batch=3)
    assert found == [row | {"prediction": text} for row, text in zip(rows(), texts, strict=True)]
    assert "Zürich" in whole.decode()
    assert run(capsys, *given)[0].encode() == whole  # to stdout
    after = [len(b"".join(whole.splitlines(keepends=True)[:count])) for count in range(11)]
    for size in (10, after[4], after[8] + 20, len(whole) - 1, len(whole)):
        output.write_bytes(whole[:size])
        err = run(capsys, *given, "--output", str(output))[1]
        assert output.read_bytes() == whole
    assert err == f"Written to {output}\n"  # all was there
    err = run(capsys, *given, "--seed", "1", "--output", str(output), code=2)[1]
    assert "was written with other settings: seed was 0 and is 1 now" in err
    output.with_name("found.jsonl.config.json").unlink()
    assert "unbottle did not write it" in run(capsys, *given, "--output", str(output), code=2)[1]
    assert "that is the file to read" in run(capsys, *given, "--output", str(path), code=2)[1]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", "", "a.jsonl: the file is empty."),
        ("a.jsonl", '{"document": "x"}\n{', "a.jsonl, line 2: not valid JSON"),
        ("a.jsonl", "[]\n", "a.jsonl, line 1: expected a JSON object"),
        ("a.jsonl", '{"text": "x", "n": 1}\n', "line 1: no field 'document'. There are: text, n."),
        ("a.jsonl", '{"document": 3}\n', "line 1: 'document' is int, not a text."),
        ("a.csv", "document\nx\n", "a.csv: summarize does not read .csv. Give a text, or a .jsonl"),
        ("none.txt", None, "No such file"),
        ("none.jsonl", None, "No such file"),
    ],
)
def test_files_that_are_refused(name: str, content: str | None, message: str, model: str, tmp_path, capsys) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    assert message in run(capsys, str(tmp_path / name), "--model", model, code=2)[1]


def test_other_refusals(model: str, tmp_path: Path, capsys) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    text = str(tmp_path / "a.txt")
    assert "sampling 'best': unknown" in run(capsys, text, "--model", model, "--sampling", "best", code=2)[1]
    assert "writes at most 32 tokens" in run(capsys, text, "--model", model, code=2)[1]
    tiny_training.model(None).save_pretrained(tmp_path / "gpt2")
    err = run(capsys, text, "--model", str(tmp_path / "gpt2"), code=2)[1]
    assert "is not an encoder-decoder (gpt2). This takes one, such as T5 or BART." in err


def test_dry_run(capsys) -> None:
    out = run(capsys, "a.txt", "--model", "none", "--top-k", "5", "--dry-run")[0]
    settings = json.loads(out)["settings"]
    assert {"file": "a.txt", "top_k": 5, "sampling": "top-k", "max_length": 128, "batch": 8}.items() <= settings.items()
