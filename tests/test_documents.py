"""The code in README.md and CONTRIBUTING.md runs, and is right."""

import re
import textwrap
from pathlib import Path

import oracle
import pytest
import torch
from cases import Case, random_shape
from contract import agree

from unbottle.head.partition import PARTITIONS
from unbottle.spec import LETTERS

ROOT = Path(__file__).parents[1]


def code(document: str) -> list[str]:
    text = (ROOT / document).read_text(encoding="utf-8")
    return [textwrap.dedent(block) for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)]


def test_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    for block in code("README.md"):
        exec(compile(block, "README.md", "exec"), {})


@pytest.fixture
def walk(monkeypatch: pytest.MonkeyPatch):
    """Write what CONTRIBUTING.md has you write, where it says; take it all back afterwards."""
    partition, reference = code("CONTRIBUTING.md")
    exec(compile(partition, "CONTRIBUTING.md", "exec"), {})
    names = dict(vars(oracle))
    exec(compile(reference, "CONTRIBUTING.md", "exec"), names)
    before = oracle.partitioned

    def partitioned(case, b, t):
        logits, written = before(case, b, t)
        written["W"] = names["echo"](case, b, t, oracle.query(case, b, t))
        return logits | written["W"], written

    monkeypatch.setattr(oracle, "partitioned", partitioned)
    yield
    del LETTERS["w"], PARTITIONS["w"]


@pytest.mark.parametrize("method", ["softmax+w", "softmax+crw:3,6+mi", "mos:2+cw", "pg+w"])
@pytest.mark.parametrize("convention", ["paper", "release"])
def test_your_first_partition(walk: None, method: str, convention: str) -> None:
    agree(Case(method, False, random_shape(1), convention=convention))
