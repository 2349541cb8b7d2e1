"""What the documents say is so: their code runs, their tables are what commands print, their links lead somewhere."""

import importlib
import json
import os
import re
import runpy
import shlex
import sys
import textwrap
import types
from pathlib import Path

import oracle
import pytest
import torch
from cases import Case, random_shape
from contract import agree

from unbottle.cli.main import main
from unbottle.experiments import EXPERIMENTS, Entry
from unbottle.head.partition import PARTITIONS
from unbottle.method import LETTERS

ROOT = Path(__file__).parents[1]
DOCUMENTS = [
    "README.md",
    "CONTRIBUTING.md",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")),
]
DOCUMENTS = [name for name in DOCUMENTS if not name.startswith("docs/reference/")]  # make docs writes those
WITH_CODE = [name for name in DOCUMENTS if name != "CONTRIBUTING.md" and "```python" in (ROOT / name).read_text()]
GENERATED = "reference"


def code(document: str, section: str = "") -> list[str]:
    """The Python blocks of a document, or of one of its sections."""
    text = (ROOT / document).read_text(encoding="utf-8")
    if section:
        text = text.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
        assert text, f"{document} has no section {section!r}"
    return [textwrap.dedent(block) for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)]


@pytest.fixture
def letters():
    """What a document registers is gone afterwards."""
    before = set(LETTERS)
    yield
    for letter in set(LETTERS) - before:
        del LETTERS[letter], PARTITIONS[letter]


@pytest.mark.parametrize("document", WITH_CODE)
def test_its_code_runs(document: str, letters: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names: dict = {"__name__": document}
    for block in code(document):  # later blocks go on where earlier ones ended
        exec(compile(block, document, "exec"), names)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_its_links_lead_somewhere(document: str) -> None:
    path = ROOT / document
    prose = re.sub(r"```.*?```|`[^`]*`", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", prose):
        if not target.startswith("http") and GENERATED not in Path(target).parts:
            assert (path.parent / target).exists(), target
    for target in re.findall(r"(?:scripts|examples|tests)/[\w/]+\.(?:py|yaml)", path.read_text(encoding="utf-8")):
        assert (ROOT / target).exists(), target


@pytest.mark.parametrize("document", DOCUMENTS)
def test_make_knows_its_targets(document: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    wanted = set(re.findall(r"`make ([a-z-]+)", (ROOT / document).read_text(encoding="utf-8")))
    assert wanted <= targets


def command_lines(document: str) -> list[list[str]]:
    """The `unbottle` commands of code blocks, also behind a launcher, as lists of words."""
    text = (ROOT / document).read_text(encoding="utf-8").replace("\\\n", " ")
    lines = re.findall(r"^(?: {4,}|(?=unbottle ))(?:\S.* -m )?(unbottle .*)$", text, re.MULTILINE)
    return [[word for word in shlex.split(line, comments=True)[1:] if word != "..."] for line in lines]


@pytest.mark.parametrize("document", [*DOCUMENTS, "results/README.md"])
def test_its_commands_exist(document: str, capsys: pytest.CaptureFixture) -> None:
    """Every command and every option that is printed; --help stops it after parsing."""
    for words in command_lines(document):
        assert main([*words, "--help"]) == 0, words


def test_commands_are_found() -> None:
    assert ["demo", "--quick"] in command_lines("README.md")
    assert any("--rdzv" not in words and "--batch" in words for words in command_lines("docs/distributed.md"))


def script(name: str) -> dict:
    return runpy.run_path(str(ROOT / "scripts" / f"{name}.py"))


def test_generated_blocks() -> None:
    """Tables of methods, and every measured number of README and guides."""
    readme = script("readme")
    assert "README.md" in readme["BLOCKS"]
    for document in readme["BLOCKS"]:
        text = (ROOT / document).read_text(encoding="utf-8")
        assert readme["updated"](document, text) == text, f"{document}: make documents"


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 135


def test_which_method() -> None:
    """Every number of this page is of results/."""
    text = (ROOT / "docs" / "which-method.md").read_text(encoding="utf-8")
    assert script("which_method")["document"]() == text, "make documents"


def test_site_has_every_page() -> None:
    """The menu names every page of docs/ and every page that scripts/build_reference.py writes, and no other."""
    named = re.findall(r"([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    pages = [name.removeprefix("docs/") for name in DOCUMENTS if name.startswith("docs/")]
    modules = [f"api-{name.replace('.', '-')}" for name in script("build_reference")["MODULES"]]
    assert sorted(named) == sorted([*pages, *(f"reference/{name}.md" for name in ("cli", "methods", *modules))])


def words_of_picture(path: Path) -> list[str]:
    """Words and numbers; where they stand depends on the version of matplotlib."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text(encoding="utf-8"))


def test_evidence(tmp_path: Path) -> None:
    """Every number of this page and its picture is of results/."""
    made = script("evidence")
    found = made["runs"]()
    assert found, "there are results of real models"
    assert made["document"]() == (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8"), "make documents"
    made["picture"](found, tmp_path / "again.svg")
    assert words_of_picture(ROOT / "docs" / "images" / "evidence.svg") == words_of_picture(tmp_path / "again.svg")
    made["curve"](found, tmp_path / "curve.svg")
    assert words_of_picture(ROOT / "docs" / "images" / "tokens.svg") == words_of_picture(tmp_path / "curve.svg")


@pytest.mark.parametrize("document", [*DOCUMENTS, "LOG.md"])
def test_results_that_are_named_are_there(document: str) -> None:
    named = set(re.findall(r"results/([a-z][\w-]*)", (ROOT / document).read_text(encoding="utf-8")))
    assert named <= set(os.listdir(ROOT / "results"))


def test_all_results_are_told() -> None:
    text = (ROOT / "results" / "README.md").read_text(encoding="utf-8")
    told = set(re.findall(r"^\| .*", text, re.MULTILINE))
    named = {name for line in told for name in re.findall(r"`([a-z0-9-]+)[`/]", line.split("|")[1])}
    assert named == {path.name for path in (ROOT / "results").iterdir() if path.is_dir()}


def test_the_picture(tmp_path: Path) -> None:
    script("picture")["main"](tmp_path / "again.svg")
    found = words_of_picture(ROOT / "docs" / "images" / "unbottle.svg")
    assert found == words_of_picture(tmp_path / "again.svg"), "make documents"
    assert {"king", "0.50", "0.25"} <= set(found)


ARCHITECTURE = ROOT / "docs" / "architecture.md"


def test_file_tree_is_complete() -> None:
    """It names every file that exists and no other; the comments are free."""
    architecture = script("architecture")
    named = {path for path in architecture["tree"](ARCHITECTURE.read_text(encoding="utf-8")) if not path.endswith("/")}
    assert named == architecture["files"](), "make documents"


@pytest.mark.parametrize(("walk", "limit"), [("Walk 1", 15), ("Walk 2", 20), ("Walk 3", 12)])
def test_walks_name_few_files_that_exist(walk: str, limit: int) -> None:
    text = ARCHITECTURE.read_text(encoding="utf-8").partition(f"## {walk}")[2].partition("\n## ")[0]
    files = set(re.findall(r"`([\w/]+\.py)`", text))
    assert 0 < len(files) <= limit
    assert not [name for name in files if not (ROOT / "src" / "unbottle" / name).exists()]


@pytest.fixture
def echo(letters: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Define the partition and the oracle of CONTRIBUTING.md; undo it afterwards."""
    partition, reference = code("CONTRIBUTING.md", "Your first partition")
    exec(compile(partition, "CONTRIBUTING.md", "exec"), {})
    names = dict(vars(oracle))
    exec(compile(reference, "CONTRIBUTING.md", "exec"), names)
    before = oracle.partitioned

    def partitioned(case, b, t):
        logits, written = before(case, b, t)
        written["W"] = names["echo"](case, b, t, oracle.query(case, b, t))
        return logits | written["W"], written

    monkeypatch.setattr(oracle, "partitioned", partitioned)


@pytest.mark.parametrize("method", ["softmax+w", "softmax+crw:3,6+mi", "mos:2+cw", "pg+w"])
@pytest.mark.parametrize("convention", ["paper", "release"])
def test_your_first_partition(echo: None, method: str, convention: str) -> None:
    agree(Case(method, False, random_shape(1), convention=convention))


def test_your_first_metric(tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    summary_scores = importlib.import_module("unbottle.eval.summary_scores")  # the package has a function of that name
    metric, line = code("CONTRIBUTING.md", "Your first metric")
    names: dict = {}
    exec(compile(metric, "CONTRIBUTING.md", "exec"), names)
    module = types.SimpleNamespace(**names)
    for name, registered in eval("{" + line + "}", {"compression": module}).items():
        monkeypatch.setitem(summary_scores.METRICS, name, registered)
    predictions = tmp_path / "predictions.jsonl"
    examples = [("1", "one two three four", "one two"), ("2", "one two three", "one"), ("3", "one", "")]
    rows = [{"id": i, "document": document, "summary": "", "prediction": text} for i, document, text in examples]
    predictions.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    arguments = ["--predictions", str(predictions), "--metrics", "compression", "--output", str(tmp_path / "scores")]
    assert main(["eval", "summaries", *arguments]) == 0
    assert "compression" in capsys.readouterr().out
    result = json.loads((tmp_path / "scores" / "result.json").read_text(encoding="utf-8"))
    score = result["runs"]["predictions"]["metrics"]["compression"]
    assert score["value"] == pytest.approx(2.5)
    assert score["counted"] == 2  # an empty summary has no value


def test_your_first_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment, line = code("CONTRIBUTING.md", "Your first experiment")
    module = types.ModuleType("unbottle.experiments.head_sizes")
    exec(compile(experiment, "CONTRIBUTING.md", "exec"), vars(module))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for name, entry in eval(f"{{{line}}}", {"Entry": Entry}).items():
        monkeypatch.setitem(EXPERIMENTS, name, entry)
    text = tmp_path / "text.txt"
    text.write_text("\n".join(f"Anna met {name} near the river ." for name in ("Boris", "Clara") * 900), "utf-8")
    folders = ["--work", str(tmp_path / "work"), "--output", str(tmp_path / "results")]
    assert main(["reproduce", "head-sizes", "--preset", "tiny", "--data", str(text), *folders]) == 0
    table = (tmp_path / "results" / "head-sizes" / "table.md").read_text(encoding="utf-8")
    assert "Head (M)" in table
    assert "Softmax + C + Mi" in table
