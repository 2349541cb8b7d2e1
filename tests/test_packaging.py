"""What pyproject.toml declares is what the package imports, and every file names the same Python."""

from __future__ import annotations

import ast
import importlib.metadata
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from unbottle.cli import doctor

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "unbottle"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = {  # layer or file: the extras with which it is installed. The other layers have the core dependencies alone
    "data": ("train", "eval", "demo"),
    "train": ("train",),
    "eval": ("eval",),
    "bench": ("bench",),
    "bench/engine.py": ("vllm",),
    "report": ("bench",),
    "experiments": ("demo",),
    "app": ("app",),
    "cli": ("train",),
    "serve": ("vllm",),
    "ops": ("triton",),
}
DISTRIBUTIONS = {"yaml": "pyyaml", "mauve": "mauve-text"}  # the import names that are not the distribution's name


def names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(line).name) for line in requirements}


def distribution(package: str) -> str:
    return canonicalize_name(DISTRIBUTIONS.get(package, package))


def imported(path: Path) -> set[str]:
    """Packages that are not of the standard library, in functions too."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add(node.module or "")
    packages = {module.split(".")[0] for module in modules}
    return {package for package in packages if package not in sys.stdlib_module_names} - {"unbottle"}


def files_of(layer: str) -> list[Path]:
    folder = SOURCE / layer
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [folder]


LAYERS = sorted(
    path.name for path in SOURCE.iterdir() if path.suffix == ".py" or (path.is_dir() and list(path.glob("*.py")))
)


@pytest.mark.parametrize("layer", LAYERS)
def test_every_import_is_declared(layer: str) -> None:
    core, extras = names(PROJECT["dependencies"]), PROJECT["optional-dependencies"]
    undeclared = {canonicalize_name(check.name) for check in doctor.others()}  # `unbottle doctor` says how to get them
    for path in files_of(layer):
        for package in imported(path):
            wanted = distribution(package)
            if wanted in core or wanted in undeclared:
                continue
            own = path.relative_to(SOURCE).as_posix()
            needed = EXTRAS.get(own) or EXTRAS.get(layer)
            assert needed, f"{path} imports {package}, which is not among the dependencies"
            for extra in needed:
                assert wanted in names(extras[extra]), f"{path} imports {package}, which the extra {extra} lacks"


def test_every_core_dependency_is_imported() -> None:
    found = {distribution(package) for layer in LAYERS for path in files_of(layer) for package in imported(path)}
    assert names(PROJECT["dependencies"]) <= found


def test_import_names_belong_to_these_distributions() -> None:
    providers = importlib.metadata.packages_distributions()
    for layer in LAYERS:
        for path in files_of(layer):
            for package in imported(path) & set(providers):
                assert distribution(package) in {canonicalize_name(name) for name in providers[package]}, package


def test_constraints_pin_every_dependency() -> None:
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    pinned = names([line for line in text.splitlines() if line and not line.startswith("#")])
    assert names([*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]) <= pinned


def test_dev_installs_what_the_tests_of_the_layers_import() -> None:
    """All but the page, which has an environment of its own (make test-browser)."""
    dev = names([*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]])
    for extra in ("train", "eval", "bench", "demo"):
        assert names(PROJECT["optional-dependencies"][extra]) <= dev, extra


def test_one_oldest_python() -> None:
    oldest = PROJECT["requires-python"].removeprefix(">=")
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    assert tools["ruff"]["target-version"] == "py" + oldest.replace(".", "")
    assert tools["mypy"]["python_version"] == oldest
    assert f"Python {oldest} or newer" in (ROOT / "README.md").read_text(encoding="utf-8")
    for name in ("Makefile", "src/unbottle/cli/doctor.py"):  # these read it from where it is declared
        assert not re.search(r"\b3[., ]+1\d\b", (ROOT / name).read_text(encoding="utf-8")), name
    frozen = re.search(r"\(Python (\S+), Linux\)", (ROOT / "constraints.txt").read_text(encoding="utf-8"))
    assert frozen is not None
    assert frozen[1] == oldest


def test_readme_says_how_to_install() -> None:
    section = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Install")[2].partition("\n## ")[0]
    assert "pip install ." in section
    extras = {extra for names in re.findall(r"pip install '\.\[([\w,]+)\]'", section) for extra in names.split(",")}
    assert extras
    assert extras <= {*PROJECT["optional-dependencies"]}
    assert PROJECT["urls"]


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    # As if typed in a shell, also where the tests themselves run under make.
    environment = {
        name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    }
    return subprocess.run(["make", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_make_refuses_an_old_python() -> None:
    recipe = make("--dry-run", "--always-make", "setup", f"PYTHON={sys.executable}").stdout
    oldest = PROJECT["requires-python"].removeprefix(">=")
    check = next(line for line in recipe.splitlines() if "sys.version_info" in line)
    assert subprocess.run(check, shell=True, check=False).returncode == 0
    old = check.replace("sys.version_info[:2]", "(3, 9)")
    done = subprocess.run(old, shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"Unbottle needs Python {oldest} or newer, but {sys.executable} is 3.9.")


def test_make_app_opens_the_models_of_the_demo(tmp_path: Path) -> None:
    done = make("app", f"DEMO={tmp_path}")
    assert done.returncode == 2
    assert f"{tmp_path} has no models. Run make demo" in done.stderr
    line = make("--dry-run", "app", f"DEMO={tmp_path}", "ARGS=--port 8000").stdout.splitlines()[-1]
    command = shlex.split(line)
    assert command[0] == ".venv/bin/unbottle"
    models = [f"{tmp_path}/{name}/model" for name in ("softmax", "cpr")]
    assert command[1:] == ["app", *models, "--open", "--port", "8000"]
