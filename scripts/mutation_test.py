"""Break the maths on purpose and see whether a test notices: python scripts/mutation_test.py --sample 40

Lines of head/ and ops/ are changed one at a time: an operator, a comparison, a number, a truth value. The files of the
fast suite that concern them then run until the first failure. Mutants that live run again with the whole matrices
(-m "full or not full"): those that die only there are what the slice of `make test` loses. Results are kept in a file;
if interrupted, rerun the same command to resume. A mutant that lives may be harmless: it is printed, to be read.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
MUTATED = ("head", "ops")
TESTS = ("tests/head", "tests/ops", "tests/hf/test_generation.py", "tests/serve/test_paged_state.py")
PATIENCE = 900  # seconds; a mutant that takes longer hangs, which is noticed
BINARY = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.MatMult: "*", ast.FloorDiv: "*", ast.Mod: "*"}
COMPARE = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}
LOGIC = {ast.BitAnd: "|", ast.BitOr: "&", ast.And: "or", ast.Or: "and"}
# What is only for people: messages, annotations, docstrings; and what only refuses or describes.
SKIPPED = (ast.Raise, ast.Assert, ast.AnnAssign, ast.arg, ast.JoinedStr)


@dataclass(frozen=True)
class Mutation:
    """Lines and columns as in ast, counted in UTF-8 bytes."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str

    @property
    def key(self) -> str:
        return f"{self.file}:{self.line}:{self.column}:{self.text}"

    def applied(self, source: bytes) -> bytes:
        lines = source.splitlines(keepends=True)
        start = sum(map(len, lines[: self.line - 1])) + self.column
        end = sum(map(len, lines[: self.end_line - 1])) + self.end_column
        return source[:start] + self.text.encode() + source[end:]


def mutations(path: Path) -> Iterator[Mutation]:
    source = path.read_text(encoding="utf-8")
    name = path.relative_to(ROOT / "src" / "unbottle").as_posix()

    def replaced(node: ast.expr, text: str) -> Mutation:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return Mutation(name, node.lineno, node.col_offset, node.end_lineno, node.end_col_offset, text)

    def code(node: ast.expr) -> str:
        return f"({ast.get_source_segment(source, node)})"

    def walk(node: ast.AST) -> Iterator[Mutation]:
        if isinstance(node, SKIPPED):
            return
        if isinstance(node, ast.BinOp) and (sign := (BINARY | LOGIC).get(type(node.op))):
            yield replaced(node, f"({code(node.left)} {sign} {code(node.right)})")
        elif isinstance(node, ast.Compare) and len(node.ops) == 1 and (sign := COMPARE.get(type(node.ops[0]))):
            yield replaced(node, f"({code(node.left)} {sign} {code(node.comparators[0])})")
        elif isinstance(node, ast.BoolOp) and (sign := LOGIC.get(type(node.op))):
            yield replaced(node, "(" + f" {sign} ".join(map(code, node.values)) + ")")
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub | ast.Invert):
            yield replaced(node, code(node.operand))
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            yield replaced(node, str(not node.value))
        elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            yield replaced(node, repr(node.value + 1))
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list", "slice") and isinstance(node, ast.FunctionDef):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from walk(child)

    yield from walk(ast.parse(source))


def sampled(count: int, seed: int) -> list[Mutation]:
    folders = [ROOT / "src" / "unbottle" / folder for folder in MUTATED]
    found = [mutation for folder in folders for path in sorted(folder.rglob("*.py")) for mutation in mutations(path)]
    return random.Random(seed).sample(found, min(count, len(found)))


def run(mutation: Mutation | None, *, whole: bool, tests: tuple[str, ...] = TESTS) -> str:
    """The test that fails first, "time" if they do not end, "" if all pass; in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer"
        if mutation is not None:
            shutil.copytree(ROOT / "src", Path(folder) / "src")
            path = Path(folder) / "src" / "unbottle" / mutation.file
            path.write_bytes(mutation.applied(path.read_bytes()))
        child = os.fork()
        if child == 0:
            _test(Path(folder) / "src" if mutation else ROOT / "src", answer, whole, tests)
        start = time.monotonic()
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            time.sleep(0.2)
            if time.monotonic() - start > PATIENCE:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return "time"
        return answer.read_text(encoding="utf-8") if answer.exists() else "crash"


def _test(source: Path, answer: Path, whole: bool, tests: tuple[str, ...]) -> None:
    """In the child, which has the libraries from its parent and imports unbottle itself."""
    import pytest

    first = []

    class Recorder:
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.failed:
                first.append(report.nodeid)

        def pytest_collectreport(self, report: pytest.CollectReport) -> None:
            if report.failed:
                first.append(report.nodeid)

    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1), os.dup2(quiet, 2)
    sys.path.insert(0, str(source))
    os.chdir(ROOT)
    selection = ["-m", "full or not full"] if whole else []
    try:
        # The parent has imported packages that are plugins of pytest too; without this that is an error.
        imported = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
        code = pytest.main(["-x", "-p", "no:cacheprovider", *imported, *selection, *tests], plugins=[Recorder()])
        answer.write_text("" if code == 0 else first[0] if first else "import", encoding="utf-8")
    finally:
        os._exit(0)


def table(rows: list[dict]) -> str:
    files = sorted({row["file"] for row in rows})
    lines = [
        "| file | mutants | killed by make test | killed by make test-full only | alive |",
        "|---|---:|---:|---:|---:|",
    ]
    for name in [*files, "all"]:
        here = [row for row in rows if name in ("all", row["file"])]
        fast = sum(bool(row["fast"]) for row in here)
        full = sum(bool(row["full"]) and not row["fast"] for row in here)
        lines.append(f"| {name} | {len(here)} | {fast} | {full} | {len(here) - fast - full} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=40, help="number of mutants")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=ROOT / "runs" / "mutations.jsonl")
    options = parser.parse_args()

    import torch  # noqa: F401  slow imports, once for all mutants
    import transformers  # noqa: F401

    options.results.parent.mkdir(parents=True, exist_ok=True)
    lines = options.results.read_text(encoding="utf-8").splitlines() if options.results.exists() else []
    kept = {row["key"]: row for row in map(json.loads, lines)}
    chosen = sampled(options.sample, options.seed)
    if not kept and (broken := run(None, whole=False)):
        sys.exit(f"Without any mutation this fails: {broken}")
    for number, mutation in enumerate(chosen, 1):
        if mutation.key not in kept:
            fast = run(mutation, whole=False)
            row = asdict(mutation) | {"key": mutation.key, "fast": fast, "full": fast or run(mutation, whole=True)}
            kept[mutation.key] = row
            with options.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        row = kept[mutation.key]
        print(f"{number}/{len(chosen)} {mutation.key} -> {row['fast'] or row['full'] or 'ALIVE'}", flush=True)
    rows = [kept[mutation.key] for mutation in chosen]
    print(table(rows))
    for row in rows:
        if not row["fast"]:
            print(f"{'only test-full' if row['full'] else 'alive'}: {row['key']}")


if __name__ == "__main__":
    main()
