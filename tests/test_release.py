"""What a release and its page need: one version, workflows that call what exists, a notebook that runs."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
import torch
import yaml

import unbottle

ROOT = Path(__file__).parents[1]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_version_stands_in_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["dynamic"] == ["version"]
    assert "version" not in project["project"]
    assert script("release").version() == unbottle.__version__
    assert f"\nversion: {unbottle.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_this_version_can_be_tagged() -> None:
    assert script("release").problems(f"v{unbottle.__version__}") == []


def test_a_tag_must_agree(tmp_path: Path) -> None:
    release = script("release")
    (tmp_path / "src" / "unbottle").mkdir(parents=True)
    (tmp_path / "src" / "unbottle" / "__init__.py").write_text('__version__ = "1.2.3"\n', encoding="utf-8")
    (tmp_path / "CITATION.cff").write_text("title: x\nversion: 1.2.3\n", encoding="utf-8")
    (tmp_path / "CHANGELOG.md").write_text("## [Unreleased]\n\n## [1.2.3] - 2026-01-01\n", encoding="utf-8")
    assert release.problems("v1.2.3", tmp_path) == []
    (tmp_path / "CHANGELOG.md").write_text("## [Unreleased]\n", encoding="utf-8")
    assert release.problems("v1.2.3", tmp_path) == ["the tag is v1.2.3, but CHANGELOG.md says no release"]
    assert len(release.problems("v1.2.4", tmp_path)) == 3


def test_addresses_of_the_repository_are_added() -> None:
    text = script("release").with_addresses((ROOT / "pyproject.toml").read_text(encoding="utf-8"), "https://host/us/it")
    urls = tomllib.loads(text)["project"]["urls"]
    assert urls["Issues"] == "https://host/us/it/issues"
    assert "Paper" in urls


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_call_what_exists(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    suites = {suite for job in jobs.values() for suite in job.get("strategy", {}).get("matrix", {}).get("suite", [])}
    commands = [step.get("run", "") for job in jobs.values() for step in job["steps"]]
    assert suites | set(re.findall(r"\bmake ([a-z-]+)", "\n".join(commands))) <= targets
    for name in re.findall(r"(?:scripts/\w+\.py|\.ci/\w+)", "\n".join(commands)):
        assert (ROOT / name).exists(), name
    for job in jobs.values():
        assert set(job.get("needs", "").split()) <= set(jobs)
    assert yaml.safe_load(text)["permissions"] == {"contents": "read"}, "jobs ask for more where they need it"


def test_the_oldest_python_is_checked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    oldest = project["requires-python"].removeprefix(">=")
    for path in WORKFLOWS:
        for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values():
            for step in job["steps"]:
                version = step.get("with", {}).get("python-version", oldest)
                assert version == oldest or "matrix" in version, path.name


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_issue_forms(path: Path) -> None:
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert {"name", "description", "body"} <= set(form)
    ids = [part["id"] for part in form["body"]]
    assert len(ids) == len(set(ids))
    assert any(part.get("validations", {}).get("required") for part in form["body"])


def test_the_notebook_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    notebook = json.loads((ROOT / "examples" / "notebook.ipynb").read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    names: dict = {"__name__": "__main__"}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert not cell["outputs"], "stored outputs go stale"
            exec(compile("".join(cell["source"]), "notebook.ipynb", "exec"), names)
    plain, ours = names["perplexities"].values()
    assert ours["unknown names"] < plain["unknown names"] / 2  # as it says
    assert "set by" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_the_links_of_the_notebook_and_of_the_policies_lead_somewhere() -> None:
    notebook = ROOT / "examples" / "notebook.ipynb"
    pages = [ROOT / name for name in ("SECURITY.md", "SUPPORT.md", "CODE_OF_CONDUCT.md")]
    for page in (notebook, *pages):
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert target.startswith("http") or (page.parent / target).exists(), f"{page.name}: {target}"
        for target in re.findall(r"tests/[\w/]+\.py", page.read_text(encoding="utf-8")):
            assert (ROOT / target).exists(), target


def test_installed_metadata() -> None:
    """What the package page shows, from the installation that the tests run with."""
    about = importlib.metadata.metadata("unbottle")
    assert about["Requires-Python"] == ">=3.11"
    assert "Typing :: Typed" in about.get_all("Classifier")
    assert (Path(unbottle.__file__).parent / "py.typed").exists()
