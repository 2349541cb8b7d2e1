"""The program: help, endings, and what it prints where."""

import io
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from command_lines import run_command
from tiny_shapes import TINY

from unbottle.bench import run as bench_run
from unbottle.bench.cases import SHAPES, Point, plan
from unbottle.cli import main as main_module
from unbottle.cli.main import COMMANDS, main
from unbottle.cli.methods import shape_config
from unbottle.progress import progress, remaining

QUICK = ("bench", "--shape", "tiny", "--measure", "loss", "--repeats", "1", "--threads", "1", "--no-memory")


def python(*args: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, *args], capture_output=True, text=True, check=False)


def control_characters(text: str) -> set[str]:
    return {character for character in text if not character.isprintable()} - {"\n"}


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SHAPES, "tiny", TINY)


# -- help


@pytest.mark.parametrize("command", [(), *(tuple(name.split()) for name in COMMANDS)], ids=str)
@pytest.mark.parametrize("ask", ["--help", "-h"])
def test_help(command: tuple[str, ...], ask: str, capsys: pytest.CaptureFixture, monkeypatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")  # where typer's own help would force colours
    assert main([*command, ask]) == 0
    out, err = capsys.readouterr()
    assert "Usage: unbottle" in out
    assert re.search(r"Examples:\n    \S", out)
    assert not control_characters(out)
    assert err == ""


def test_summaries_of_commands_are_whole(capsys: pytest.CaptureFixture) -> None:
    assert main(["--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for name, (command, _) in COMMANDS.items():
        if " " not in name:
            assert " ".join(command.__doc__.partition("\n\n")[0].split()) in shown


def test_help_on_a_terminal_has_boxes_and_loses_no_word(capsys: pytest.CaptureFixture, monkeypatch) -> None:
    monkeypatch.setattr("unbottle.cli.main.is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "200")
    for name, (_, examples) in COMMANDS.items():
        assert main([*name.split(), "--help"]) == 0
        shown = capsys.readouterr().out
        assert "╭" in shown, name
        words = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", shown).split())
        assert all(" ".join(line.split()) in words for line in examples.strip().splitlines()), name


def test_names_of_old_are_accepted_and_not_shown(capsys: pytest.CaptureFixture) -> None:
    assert main(["generate", "gpt2", "--new-tokens", "7", "--dry-run"]) == 0
    assert json.loads(capsys.readouterr().out)["settings"]["max_length"] == 7
    assert main(["generate", "gpt2", "--set", "new_tokens=8", "--dry-run"]) == 0
    assert json.loads(capsys.readouterr().out)["settings"]["max_length"] == 8
    assert main(["eval", "perplexity", "gpt2", "--data", "a.jsonl", "--column=body", "--dry-run"]) == 0
    assert json.loads(capsys.readouterr().out)["settings"]["column"] == "body"
    assert main(["eval", "perplexity", "--help"]) == 0
    assert not re.search(r"--column\b", capsys.readouterr().out)


def test_models_are_compared_without_chance(capsys: pytest.CaptureFixture) -> None:
    assert main(["generate", "gpt2", "other", "--dry-run"]) == 0
    assert json.loads(capsys.readouterr().out)["settings"]["sampling"] == "greedy"


def test_no_command_shows_help(capsys: pytest.CaptureFixture) -> None:
    assert main([]) == 2
    assert "Commands:" in capsys.readouterr().out


def test_help_does_not_wait_for_torch() -> None:
    code = (
        "import sys; sys.argv = ['unbottle', 'bench', '--help']\n"
        "from unbottle.cli.main import main\n"
        "assert main() == 0\n"
        # earlier versions of the hub client bring httpx, which imports rich
        "slow = ('torch', 'transformers', 'matplotlib') + (() if 'httpx' in sys.modules else ('rich',))\n"
        "sys.exit(str([name for name in slow if name in sys.modules]))"
    )
    assert python("-c", code).stderr == "[]\n"


def test_version() -> None:
    found = python("-m", "unbottle", "--version")
    assert re.fullmatch(r"unbottle \d+\.\d+\.\d+\S*\n", found.stdout)
    assert (found.returncode, found.stderr) == (0, "")


def test_the_program_has_the_public_names_too() -> None:
    code = (
        "import sys; sys.argv[0] = 'unbottle'\n"
        "import unbottle\n"
        "assert 'torch' not in sys.modules\n"
        "for name in unbottle.__all__: getattr(unbottle, name)\n"
        "assert not hasattr(unbottle, 'nonsense')\n"
    )
    assert python("-c", code).stderr == ""


@pytest.mark.full  # the next one needs the same
def test_whoever_imports_unbottle_gets_all_of_it() -> None:
    """from_pretrained knows our models once unbottle is imported, nothing else done."""
    code = "import unbottle\nfrom transformers import AutoConfig\nprint(AutoConfig.for_model('unbottle').model_type)"
    found = python("-c", code)
    assert found.stdout == "unbottle\n", found.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param([], marks=pytest.mark.full),
        pytest.param(["unbottle"], marks=pytest.mark.full),
        ["-m", "unbottle"],
    ],
)
def test_a_module_run_with_m_gets_all_of_it(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python calls itself -m while it imports the package around the module."""
    package = tmp_path / "own_package"
    package.mkdir()
    (package / "__init__.py").write_text("import unbottle\n", encoding="utf-8")
    code = "from transformers import AutoConfig\nprint(AutoConfig.for_model('unbottle').model_type)\n"
    (package / "module.py").write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    found = python("-m", "own_package.module", *arguments)
    assert found.stdout == "unbottle\n", found.stderr


def test_the_program_run_with_m_does_not_wait_for_torch() -> None:
    found = python("-X", "importtime", "-m", "unbottle", "bench", "--help")
    assert "Usage" in found.stdout
    assert "unbottle.cli.main" in found.stderr
    assert not re.search(r"\| +(torch|transformers)$", found.stderr, re.MULTILINE)


# -- endings


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["frobnicate"], "No such command 'frobnicate'."),
        (["bench", "--frobnicate"], "No such option: --frobnicate"),
        (["bench", "--repeats", "many"], "Invalid value for '--repeats'"),
        (["bench", "--shape", "gpt3"], "shape 'gpt3': unknown. Known: gpt2"),
        (["bench", "--measure", "speed"], "measure 'speed': unknown."),
        (["bench", "--method", "sofmax"], "unknown base 'sofmax'."),
        (["bench", "--shape", "gpt2", "--method", "s+e"], "this model has no encoder"),
        (["bench", "--dtype", "int8"], "dtype 'int8': unknown."),
        (["bench", "--preset", "fast"], "preset 'fast': unknown. Known: goals, paper."),
        (["bench", "--preset", "goals", "--shape", "gpt2"], "preset goals fixes methods and sizes: leave out --shape."),
        (["bench", "--preset", "paper", "--method", "mos"], "leave out --method."),
        (
            ["bench", "--preset", "paper", "--shape", "vocab-152k"],
            "Known: gpt2, gpt2-medium, t5-small, t5-base, bart-base",
        ),
        (["bench", "--preset", "paper", "--shape", "t5-small", "--shape", "gpt2"], "have different methods"),
        (["bench", "--scale", "X=3"], "scale 'X=3': unknown axis 'X'."),
        (["bench", "--repeats", "0"], "repeats 0: give a number of at least 1."),
        (["bench", "--output", "/dev/null/folder"], "Not a directory"),
    ],
)
def test_refusals(args: list[str], said: str, capsys: pytest.CaptureFixture) -> None:
    assert main(args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("unbottle: error: ")
    assert said in err
    assert err.count("\n") == 1
    assert main([*args, "--debug"]) == 2
    assert "Traceback (most recent call last)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (RuntimeError("two\nlines \x1b[31mred"), 1, "unbottle: error: RuntimeError: two lines [31mred\n"),
        (AssertionError(), 1, "unbottle: error: AssertionError\n"),
        (ValueError("a: not allowed"), 2, "unbottle: error: a: not allowed\n"),
        (OSError(28, "No space left on device"), 2, "unbottle: error: No space left on device.\n"),
        (FileNotFoundError(2, "No such file", "a.txt"), 2, "unbottle: error: a.txt: No such file.\n"),
        (OSError("a.txt: a sentence of ours."), 2, "unbottle: error: a.txt: a sentence of ours.\n"),
        (KeyboardInterrupt(), 130, "Interrupted.\n"),
    ],
)
def test_failures(
    error: BaseException, code: int, said: str, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setitem(main_module.COMMANDS, "fail", (fail, "unbottle fail"))
    assert main(["fail"]) == code
    assert capsys.readouterr().err == said


def test_a_reader_that_has_seen_enough() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    found = subprocess.run(
        [sys.executable, "-m", "unbottle", "--help"], stdout=writing, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writing)
    assert (found.returncode, found.stderr) == (1, "")


# -- bench


def test_bench(tiny: None, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main([*QUICK, "--output", str(tmp_path / "runs")]) == 0
    out, err = capsys.readouterr()
    assert "| loss    | softmax+cpr:3,6+mi |" in out
    assert out.endswith(f"Written to {tmp_path / 'runs'}: bench.md, bench.json, bench.png\n")
    assert not control_characters(out + err)
    assert "100%  tiny loss: " in err
    data = json.loads((tmp_path / "runs" / "bench.json").read_text())
    assert [row["method"] for row in data["rows"]] == ["plain", *TINY.methods]
    assert (tmp_path / "runs" / "bench.md").read_text().strip() in out


def lines() -> list[str]:
    """The command lines that are shown to people: in documents and in the help."""
    root = Path(__file__).parents[2]
    shown = []
    for path in (root / "README.md", *sorted((root / "docs").rglob("*.md"))):
        if "reference" not in path.parts:
            shown += re.findall(r"^    (unbottle .*?)(?: +#.*)?$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return [*dict.fromkeys([*shown, *(line for _, text in COMMANDS.values() for line in text.strip().splitlines())])]


ONLY_PRINT = ("methods", "doctor")  # there is nothing to leave out


@pytest.mark.parametrize("line", lines())
def test_what_we_show_works(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it but the work: a command can be told to do nothing. Models of the hub are those of a shape."""
    monkeypatch.setattr("unbottle.cli.methods.own_config", lambda model: shape_config("t5-small"))
    monkeypatch.setattr("unbottle.hub_access.unavailable", lambda *args: "")
    for name in ("check_place", "check_model"):  # the dry run of training looks for model and data
        monkeypatch.setattr(f"unbottle.cli.train_options.{name}", lambda *args: None)
    for load in ("load_lm", "load_summarize"):
        monkeypatch.setattr(f"unbottle.cli.train.{load}", lambda *args: (None, None, None, None))
    monkeypatch.setattr("unbottle.train.estimate.estimate", lambda *args: {})
    _, *words = shlex.split(line)
    is_real = words[0] in ONLY_PRINT or words[0].startswith("-") or {"--help", "--dry-run"} & {*words}
    assert main([*words, *([] if is_real else ["--dry-run"])]) == 0


@pytest.mark.parametrize(
    "line", [line for line in lines() if line.startswith("unbottle bench") and "--help" not in line]
)
def test_what_we_show_can_be_measured(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = []
    monkeypatch.setattr("unbottle.cli.bench.execute", lambda settings, output: planned.append(plan(settings)))
    monkeypatch.setattr("unbottle.cli.bench.execute_engine", lambda settings, output: planned.append(settings.batches))
    assert main(shlex.split(line)[1:]) == 0
    assert planned
    assert all(planned)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--engine", "other"], "engine 'other'"),
        (["--shape", "t5-small"], "shape 't5-small' is an encoder-decoder model"),
        (["--shape", "huge"], "shape 'huge'"),
        ([], r"engine vllm: not installed. Get it with: pip install 'unbottle\[vllm\]'"),
    ],
)
def test_an_engine_that_can_not_run_is_refused(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unbottle.cli.bench.importlib.util.find_spec", lambda name: None)
    output = tmp_path / "out"
    _, err = run_command(capsys, "bench", "--engine", "vllm", "--output", str(output), *words, code=2)
    assert re.search(said, err)
    assert not output.exists()


def test_every_option_arrives(tiny: None, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr("unbottle.cli.bench.execute", lambda settings, output: seen.append((settings, output)))
    line = (
        "bench --method mos --method s+c --shape tiny --shape t5-small --measure decode --batch 3 --length 5 "
        "--source-length 6 --context 9 --context 10 --scale T=12 --repeats 4 --threads 3 --dtype bfloat16 "
        "--device cuda --compile --against-dense --no-memory --output here"
    )
    assert main(line.split()) == 0
    ((settings, output),) = seen
    assert output == Path("here")
    found = settings.to_dict()
    assert found | {"scales": str(settings.scales[0])} == {
        "shapes": ("tiny", "t5-small"), "methods": ("mos", "s+c"), "measures": ("decode",), "batch": 3, "length": 5,
        "source_length": 6, "contexts": (9, 10), "repeats": 4, "threads": 3, "dtype": "bfloat16",
        "against_dense": True, "memory": False, "scales": "T=12", "seed": 0, "device": "cuda", "compile": True,
        "autocast": False, "preset": None, "baseline": "plain",
    }  # fmt: skip


def test_a_scale_alone_measures_training(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr("unbottle.cli.bench.execute", lambda settings, output: seen.append(settings.measures))
    assert main(["bench", "--scale", "T=12"]) == main(["bench"]) == 0
    assert seen == [("train",), ("forward", "loss", "loss-no-logits", "train", "decode", "generate")]


def test_presets_of_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    """The paper's table 1 has fifteen rows, the first of which is what its times are compared with."""
    seen = []
    monkeypatch.setattr("unbottle.cli.bench.execute", lambda settings, output: seen.append(settings))
    for line in ("--preset paper", "--preset goals --repeats 3 --autocast", "--preset paper --shape t5-small"):
        assert main(["bench", *line.split()]) == 0
    paper, goals, summaries = seen
    assert (paper.shapes, paper.measures, paper.memory, paper.baseline) == (("gpt2",), ("forward",), False, "softmax")
    assert len({paper.baseline, *paper.methods}) == 15
    assert (goals.preset, goals.repeats, goals.autocast) == ("goals", 3, True)
    assert (summaries.shapes, len(summaries.methods), summaries.methods[-1]) == (("t5-small",), 9, "softmax+cepr:20+mi")


def test_a_gpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main(["bench", "--device", "cuda"]) == 2
    assert "device cuda: torch finds no GPU here. Use --device cpu." in capsys.readouterr().err


def test_ratios_of_the_paper() -> None:
    from unbottle.cli.bench import paper_ratios

    ratios = paper_ratios("softmax")
    assert round(ratios["gpt2", "softmax+cpr:20,100+mi"], 2) == 1.45
    assert ratios["t5-small", "softmax+cepr:20"] == pytest.approx(38.4 / 30.1)
    assert {shape for shape, _ in ratios} <= {*SHAPES}
    assert round(ratios["gpt2", "mos"], 2) == 1.57
    assert round(ratios["gpt2-medium", "pg"], 2) == 1.14


def test_ctrl_c_prints_what_was_measured(
    tiny: None, tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = bench_run.work

    def interrupted(model: object, point: Point) -> object:
        if point.measure == "train":
            raise KeyboardInterrupt
        return before(model, point)

    monkeypatch.setattr(bench_run, "work", interrupted)
    assert main([*QUICK, "--measure", "train", "--output", str(tmp_path)]) == 130
    out, err = capsys.readouterr()
    assert "| loss    | mos:2 " in out
    assert "| train" not in out
    assert "Interrupted: this is what was measured so far." in out
    assert "Traceback" not in err
    assert json.loads((tmp_path / "bench.json").read_text())["interrupted"] is True


# -- progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_plain_lines_come_now_and_then() -> None:
    stream, seconds = io.StringIO(), iter(range(0, 10_000, 4))
    with progress(stream, now=lambda: next(seconds)) as report:
        for done in range(11):
            report(done, 10, f"step {done}")
    lines = stream.getvalue().splitlines()
    assert lines[0] == "  0%  step 0  (remaining time not known yet)"
    assert 2 < len(lines) < 10
    assert lines[-1].startswith("100%  step 10")
    assert not control_characters(stream.getvalue())


@pytest.mark.parametrize("no_color", [True, False])
def test_a_bar_on_a_terminal(no_color: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    (monkeypatch.setenv("NO_COLOR", "1") if no_color else monkeypatch.delenv("NO_COLOR", raising=False))
    stream = Terminal()
    with progress(stream) as report:
        report(1, 4, "a step [with brackets]")
    shown = stream.getvalue()
    assert "25%" in shown
    assert "left" in shown
    assert "[with brackets]" in shown
    colours = re.findall(r"\x1b\[[0-9;]*(?:3[0-8]|9[0-7])[0-9;]*m", shown)
    assert bool(colours) != no_color


@pytest.mark.parametrize(
    ("elapsed", "done", "said"),
    [(0, 0, "remaining time not known yet"), (10, 0.1, "remaining time not known yet"), (10, 50, "about 10 s left"),
     (60, 10, "about 9 min left"), (3600, 20, "about 4.0 h left")],
)  # fmt: skip
def test_remaining(elapsed: float, done: float, said: str) -> None:
    assert remaining(elapsed, done, 100) == said
