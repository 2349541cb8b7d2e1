"""What every command has in common: options, exit codes, and one sentence for what goes wrong."""

from __future__ import annotations

import errno
import functools
import importlib
import json
import pathlib
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import tiny_causal
import tiny_summaries
from tiny_shapes import TINY

from unbottle.bench.shape import SHAPES
from unbottle.cli.program import COMMANDS, main
from unbottle.hf import reach

MISSING = "no/such/file.jsonl"
NOWHERE = "/dev/null/folder"


@dataclass(frozen=True, kw_only=True)
class Line:
    """A command line that works. The names in braces are of the files below; what a command has not is left out."""

    line: str
    interrupt: str  # what it calls on the way
    method: str = ""  # options that are changed to try what is wrong
    file: str = ""
    model: str = ""
    output: str = ""
    quick: bool = True  # run to the end here; the others have tests of their own


LINES = {
    "demo": Line(
        line="--plan tiny --seeds 1 --output {output}", interrupt="unbottle.recipes.demo.run:demo", output="{output}",
        quick=False,
    ),
    "app": Line(line="{causal}", interrupt="unbottle.cli.app:show", quick=False),
    "report": Line(
        line="{run} --output {output}.html", interrupt="unbottle.report.page:page", output="{output}.html",
    ),
    "methods": Line(
        line="softmax+c --model {causal}", interrupt="unbottle.cli.plain_model:plain_model", method="softmax+c",
    ),
    "doctor": Line(line="", interrupt="unbottle.cli.health:checks"),
    "generate": Line(
        line="{causal} --file {text} --new-tokens 3 --output {output}.txt", interrupt="unbottle.cli.predicting:one",
        file="{text}", model="{causal}", output="{output}.txt",
    ),
    "bench": Line(
        line="--shape tiny --measure loss --repeats 1 --threads 1 --no-memory --method softmax+c --output {output}",
        interrupt="unbottle.bench.run:work", method="softmax+c", output="{output}",
    ),
    "reproduce": Line(
        line="order-bias --preset tiny --data {text} --method softmax+mi --work {output}-work --output {output}",
        interrupt="unbottle.recipes.lab:Lab.trained", method="softmax+mi", file="{text}", output="{output}",
        quick=False,
    ),
    "compare": Line(
        line="--model {causal} --data {text} --tokens 64 --valid-tokens 16 --test-tokens 16 --length 8 --seeds 1 "
        "--lr 1e-3 --method softmax+c --work {output}-work --output {output}",
        interrupt="unbottle.recipes.compare.compare_lab:CompareLab.trained", method="softmax+c", file="{text}",
        model="{causal}", output="{output}", quick=False,
    ),
    "summarize": Line(
        line="{text} --model {seq2seq} --max-length 4 --output {output}.txt",
        interrupt="unbottle.cli.predicting:one", file="{text}", model="{seq2seq}", output="{output}.txt",
    ),
    "train lm": Line(
        line="--model {causal} --data {text} --method softmax+c --length 8 --max-steps 1 --output {output}",
        interrupt="unbottle.cli.train_lm:data_of", method="softmax+c", file="{text}", model="{causal}",
        output="{output}", quick=False,
    ),
    "train summarize": Line(
        line="--model {seq2seq} --data {pairs} --method s+c --max-steps 1 --output {output}",
        interrupt="unbottle.cli.train_summarize:data_of", method="s+c", file="{pairs}", model="{seq2seq}",
        output="{output}", quick=False,
    ),
    "eval perplexity": Line(
        line="{causal} --data {text} --part all --length 8 --tagger none --output {output}",
        interrupt="unbottle.eval.perplexity:perplexity", file="{text}", model="{causal}", output="{output}",
    ),
    "eval completion": Line(
        line="{causal} --data {text} --part all --prompts 3 --words 3 --samples 2 --tagger rules --output {output}",
        interrupt="unbottle.eval.completion:completion", file="{text}", model="{causal}", output="{output}",
    ),
    "eval lm-eval": Line(
        line="{causal} --tasks piqa --output {output}", interrupt="unbottle.eval.harness:harness", output="{output}",
        quick=False,
    ),
    "eval analogy": Line(
        line="{causal} --size 2 --kind edge --relation family --output {output}",
        interrupt="unbottle.eval.analogy:analogy", model="{causal}", output="{output}",
    ),
    "eval probe": Line(
        line="{causal} --prompt [tea]_[milk]_or --shuffles 2 --output {output}",
        interrupt="unbottle.eval.probe:probe", model="{causal}", output="{output}",
    ),
    "eval summaries": Line(
        line="--predictions {pairs} --prediction-column summary --metrics length --output {output}",
        interrupt="unbottle.cli.eval_summaries:evaluate", file="{pairs}", output="{output}",
    ),
}  # fmt: skip
NAMES = pytest.mark.parametrize("name", list(COMMANDS))


def having(part: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("name", [name for name, line in LINES.items() if getattr(line, part)])


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
    paths = {"run": "run", "text": "text.txt", "pairs": "pairs.jsonl", "seq2seq": "seq2seq", "causal": "causal"}
    return {name: str(folder / path) for name, path in paths.items()}


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "reachable", lambda: False)
    monkeypatch.setitem(SHAPES, "tiny", TINY)


def words(name: str, made: dict[str, str], folder: Path, **changed: str) -> list[str]:
    """The line as arguments; what a field of it names is replaced."""
    line = f" {LINES[name].line} "
    for field, value in changed.items():
        old = getattr(LINES[name], field)
        assert f" {old} " in line
        line = line.replace(f" {old} ", f" {value} ")
    return [*name.split(), *(word.format(**made, output=folder / "out") for word in line.split())]


def refused(capsys: pytest.CaptureFixture, args: list[str], said: str) -> None:
    """One sentence, exit code 2; the traceback if it is asked for."""
    capsys.readouterr()
    assert main(args) == 2
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert lines[-1].startswith("unbottle: error: "), err
    assert re.search(said, lines[-1]), err
    assert "Traceback" not in out + err
    assert not [line for line in lines[:-1] if "error" in line.lower()]
    assert main([*args, "--debug"]) == 2
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_every_command_has_a_line() -> None:
    assert set(LINES) == set(COMMANDS), "a command needs a line that works, in LINES"


@having("quick")
def test_it_works_and_prints_no_control_characters(name, made, tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # that is for terminals
    assert main(words(name, made, tmp_path)) == 0
    shown = "".join(capsys.readouterr())
    assert shown
    assert not {character for character in shown if not character.isprintable()} - {"\n"}


@having("method")
def test_an_unknown_method(name, made, tmp_path, capsys) -> None:
    refused(capsys, words(name, made, tmp_path, method="sofmax+c"), "unknown base 'sofmax'")


@having("file")
def test_a_missing_file(name, made, tmp_path, capsys) -> None:
    refused(capsys, words(name, made, tmp_path, file=MISSING), "o such file")


@having("output")
def test_an_unwritable_folder(name, made, tmp_path, capsys) -> None:
    refused(capsys, words(name, made, tmp_path, output=NOWHERE), "Not a directory")


@having("model")
def test_the_wrong_kind_of_model(name, made, tmp_path, capsys) -> None:
    causal = LINES[name].model == "{causal}"
    said = r"is an encoder-decoder \(t5\)" if causal else r"is a causal model \(gpt2\)"
    refused(capsys, words(name, made, tmp_path, model="{seq2seq}" if causal else "{causal}"), said)


@having("model")
def test_a_model_that_is_nowhere(name, made, tmp_path, capsys) -> None:
    refused(capsys, words(name, made, tmp_path, model="no-such-model"), "the Hub can not be reached")


@having("output")
def test_no_space_left(name, made, tmp_path, capsys, monkeypatch) -> None:
    if name == "eval lm-eval":
        monkeypatch.setattr("unbottle.eval.harness.harness", lambda *args, **options: {"results": {}})
    before = pathlib.Path.open

    def full(self, mode="r", *args, **options):
        if set("wax") & set(mode) and str(self).startswith(str(tmp_path)):
            raise OSError(errno.ENOSPC, "No space left on device", str(self))
        return before(self, mode, *args, **options)

    monkeypatch.setattr(pathlib.Path, "open", full)
    monkeypatch.setattr(pathlib.Path, "write_text", lambda self, text, **options: full(self, "w").write(text))
    refused(capsys, words(name, made, tmp_path), "No space left|disk of .* is full")


@NAMES
def test_ctrl_c(name, made, tmp_path, capsys, monkeypatch) -> None:
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    module, _, path = LINES[name].interrupt.partition(":")
    *outer, last = path.split(".")
    monkeypatch.setattr(functools.reduce(getattr, outer, importlib.import_module(module)), last, interrupted)
    assert main(words(name, made, tmp_path)) == 130
    err = capsys.readouterr().err
    assert err.endswith("unbottle: interrupted\n")
    assert "Traceback" not in err


@NAMES
def test_settings_it_does_not_know(name, made, tmp_path, capsys) -> None:
    refused(capsys, [*words(name, made, tmp_path), "--set", "nonsense=1"], "'nonsense'")
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
