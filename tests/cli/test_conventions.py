"""What every command has in common: options, exit codes, and one sentence for what goes wrong."""

from __future__ import annotations

import errno
import functools
import importlib
import importlib.util
import inspect
import json
import pathlib
import re
from pathlib import Path
from typing import get_args

import pytest
import tiny_causal
import tiny_summaries
import typer
from command_lines import LINES
from tiny_shapes import TINY

from unbottle import hub_access
from unbottle.bench.cases import SHAPES
from unbottle.cli.main import COMMANDS, RESUMES, RESUMES_FILES, SHARED, main

MISSING = "no/such/file.jsonl"
NOWHERE = "/dev/null/folder"
KINDS = ("method", "file", "model", "output", "elsewhere")
NAMING = {"METHOD", "MODEL", "RUN", "FILE", "DIR", "PATH", "NAME|PATH", "JSON"}  # options that name something
NOT_REFUSED = {  # a metric that cannot run says why, and the rest runs
    ("eval summaries", "entailment"),
    ("eval summaries", "mauve_model"),
    ("reproduce", "entailment"),  # refused in tests/experiments/test_summaries.py: it takes other kinds of models
    ("reproduce", "mauve_model"),
}
TYPES = {  # of a place for models: what does not belong there, and what is said
    "causal": {"seq2seq": r"is an encoder-decoder \(t5\)", "vision": r"is not a language model \(vit\)"},
    "seq2seq": {"causal": r"is not an encoder-decoder \(gpt2\)", "vision": r"is not an encoder-decoder \(vit\)"},
    "any": {"vision": r"is not a language model \(vit\)"},
}
NAMES = pytest.mark.parametrize("name", list(COMMANDS))


def cases(*kinds: str) -> pytest.MarkDecorator:
    """Every line that has a place for something of these kinds."""
    found = [(name, case) for name, line in LINES.items() for kind in kinds for case in line.cases(kind)]
    return pytest.mark.parametrize(("name", "case"), found)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("made")
    text = "Anna met the king in Paris. Then the king met Anna again, and Boris saw the king.\n" * 12
    (folder / "text.txt").write_text(text)
    rows = [{**row, "prediction": row["summary"]} for row in tiny_summaries.rows(60)]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    tiny_summaries.model("t5", None).save_pretrained(folder / "seq2seq")
    tiny_summaries.tokenizer().save_pretrained(folder / "seq2seq")
    tiny_causal.saved(folder / "causal", "plain", tiny_causal.tokenizer([text]))
    run = ["--data", str(folder / "text.txt"), "--part", "all", "--length", "8", "--tagger", "none"]
    assert main(["eval", "perplexity", str(folder / "causal"), *run, "--output", str(folder / "run")]) == 0
    (folder / "vision").mkdir()
    (folder / "vision" / "config.json").write_text('{"model_type": "vit"}')
    (folder / "broken").mkdir()
    (folder / "broken" / "config.json").write_text('{"model_type": ')
    paths = {
        "vision": "vision",
        "broken": "broken",
        "run": "run",
        "text": "text.txt",
        "pairs": "pairs.jsonl",
        "seq2seq": "seq2seq",
        "causal": "causal",
    }
    return {name: str(folder / path) for name, path in paths.items()}


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_access, "reachable", lambda: False)
    monkeypatch.setitem(SHAPES, "tiny", TINY)


@pytest.fixture(autouse=True)
def gradio(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if it were installed: it is imported after everything that can be refused."""
    before = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, package=None: name == "gradio" or before(name, package)
    )


def words(name: str, made: dict[str, str], folder: Path, line: str | None = None, wrong: str = "") -> list[str]:
    """A line as arguments; without one, that which works."""
    parts = (LINES[name].works if line is None else line).split()
    return [*name.split(), *(part.format(**made, output=folder / "out", wrong=wrong) for part in parts)]


def refused(capsys: pytest.CaptureFixture, args: list[str], said: str) -> None:
    """One sentence, exit code 2, no traceback."""
    capsys.readouterr()
    assert main(args) == 2
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert lines[-1].startswith("unbottle: error: "), err
    assert re.search(said, lines[-1]), err
    assert "Traceback" not in out + err
    assert not [line for line in lines[:-1] if "error" in line.lower()]


def test_every_command_has_its_lines() -> None:
    assert set(LINES) == set(COMMANDS), "a command needs its lines, in tests/command_lines.py"
    for line in LINES.values():
        assert all("{wrong}" in case for kind in KINDS for case in line.cases(kind))


@NAMES
def test_every_place_for_a_name_is_tried(name: str) -> None:
    """An option that takes a method, a model, a file or a folder has a line in which it is wrong."""
    tried = [case.split() for kind in KINDS for case in LINES[name].cases(kind)]
    before = {
        case[place - 1] if place else "" for case in tried for place, word in enumerate(case) if "{wrong}" in word
    }
    for parameter in inspect.signature(COMMANDS[name][0], eval_str=True).parameters.values():
        kind, told = get_args(parameter.annotation)
        names = (told.metavar or "").removesuffix("...") in NAMING or "Path" in str(kind)
        if not names or parameter.name in SHARED or (name, parameter.name) in NOT_REFUSED:
            continue
        if isinstance(told, typer.models.ArgumentInfo):
            assert any(not word.startswith("--") for word in before), (
                f"unbottle {name}: no line has a wrong {told.metavar}"
            )
        else:
            own = isinstance(told.default, str) and told.default  # typer.Option("--from", ...)
            option = own or f"--{parameter.name.replace('_', '-')}"
            assert option in before, f"unbottle {name}: no line has a wrong {option}"


@pytest.mark.parametrize("name", [name for name, line in LINES.items() if line.quick])
def test_it_works_and_prints_no_control_characters(name, made, tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # that is for terminals
    assert main(words(name, made, tmp_path)) == 0
    shown = "".join(capsys.readouterr())
    assert shown
    assert not {character for character in shown if not character.isprintable()} - {"\n"}


@cases("method")
def test_an_unknown_method(name, case, made, tmp_path, capsys) -> None:
    refused(capsys, words(name, made, tmp_path, case, "sofmax+c"), "unknown base 'sofmax'")


@cases("file")
def test_a_missing_file(name, case, made, tmp_path, capsys) -> None:
    refused(capsys, words(name, made, tmp_path, case, MISSING), "o such (file|folder)|has no tokenizer in it")


@cases("output", "elsewhere")
def test_an_unwritable_folder(name, case, made, tmp_path, capsys) -> None:
    refused(capsys, words(name, made, tmp_path, case, NOWHERE), "Not a directory")


@cases("model")
def test_the_wrong_kind_of_model(name, case, made, tmp_path, capsys) -> None:
    for wrong, said in TYPES[LINES[name].takes].items():
        refused(capsys, words(name, made, tmp_path, case, made[wrong]), said)


@cases("model")
def test_a_model_that_is_nowhere_or_damaged(name, case, made, tmp_path, capsys) -> None:
    refused(capsys, words(name, made, tmp_path, case, "no-such-model"), "the Hub cannot be reached")
    refused(capsys, words(name, made, tmp_path, case, made["broken"]), "config.json that is not valid JSON")


@cases("output")
def test_no_space_left(name, case, made, tmp_path, capsys, monkeypatch) -> None:
    if name == "eval lm-eval":
        monkeypatch.setattr("unbottle.eval.harness.harness", lambda *args, **options: {"results": {}})
    before = pathlib.Path.open

    def full(self, mode="r", *args, **options):
        if set("wax") & set(mode) and str(self).startswith(str(tmp_path)):
            raise OSError(errno.ENOSPC, "No space left on device", str(self))
        return before(self, mode, *args, **options)

    monkeypatch.setattr(pathlib.Path, "open", full)
    monkeypatch.setattr(pathlib.Path, "write_text", lambda self, text, **options: full(self, "w").write(text))
    place = str(tmp_path / "wrong")
    refused(capsys, words(name, made, tmp_path, case, place), "No space left|disk of .* is full")


@NAMES
def test_ctrl_c(name, made, tmp_path, capsys, monkeypatch) -> None:
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    module, _, path = LINES[name].interrupt.partition(":")
    *outer, last = path.split(".")
    monkeypatch.setattr(functools.reduce(getattr, outer, importlib.import_module(module)), last, interrupted)
    assert main(words(name, made, tmp_path)) == 130
    err = capsys.readouterr().err
    again = name in RESUMES or (name in RESUMES_FILES and "--output" in LINES[name].works)
    assert err.endswith("Interrupted. Rerun the same command to resume.\n" if again else "Interrupted.\n")
    assert "Traceback" not in err


@NAMES
def test_settings_it_does_not_know(name, made, tmp_path, capsys) -> None:
    nonsense = [*words(name, made, tmp_path), "--set", "nonsense=1"]
    refused(capsys, nonsense, "'nonsense'")
    assert main([*nonsense, "--debug"]) == 2
    assert "Traceback (most recent call last)" in capsys.readouterr().err
    refused(capsys, [*words(name, made, tmp_path), "--set", "nonsense"], "write KEY=VALUE")
    refused(capsys, [*words(name, made, tmp_path), "--config-file", MISSING], "No such file")
    (tmp_path / "a.yaml").write_text("nonsense: 1\n")
    refused(capsys, [*words(name, made, tmp_path), "--config-file", str(tmp_path / "a.yaml")], "'nonsense'")


def test_the_line_counts_before_set_and_set_before_the_file(tmp_path, capsys) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("prompt: a\nbatch: 3\ntop-k: 4\nseed: 5\n")
    given = ["generate", "gpt2", "--set", "batch=6", "--seed", "7", "--config-file", str(file), "--set", "beams=2"]
    assert main([*given, "--dry-run"]) == 0
    found = json.loads(capsys.readouterr().out)["settings"]
    assert {"prompt": "a", "batch": 6, "top_k": 4, "seed": 7, "beams": 2}.items() <= found.items()


def test_options_that_take_several_values_and_flags(tmp_path, capsys) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("shape: gpt2\nmeasure: [loss, train]\nagainst_dense: true\nmemory: false\n")
    given = ["bench", "--config-file", str(file), "--set", "method=mos", "--set", "method=s+c", "--dry-run"]
    assert main(given) == 0
    found = json.loads(capsys.readouterr().out)["settings"]
    wanted = {"shapes": ["gpt2"], "measures": ["loss", "train"], "methods": ["mos", "s+c"], "against_dense": True}
    assert wanted.items() <= found.items()
    assert found["memory"] is False
