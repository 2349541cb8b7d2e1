"""unbottle generate: prompts in, texts out, by one model or several, and nothing else on stdout."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
import tiny_causal
from byte_pairs import byte_pairs
from command_lines import run_command

from unbottle.eval import Decoding, continue_prompts

PROMPT = "the king met Anna in Paris"
METHODS = {"plain": "plain", "cpr": "softmax+cpr:3,9+mi"}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("models")
    return {name: tiny_causal.saved(folder / name, method, byte_pairs()) for name, method in METHODS.items()}


def run(capsys: pytest.CaptureFixture, *args: str, code: int = 0) -> tuple[str, str]:
    return run_command(capsys, "generate", *args, code=code)


def expected(name: str, prompts: list[str], **options) -> list[str]:
    model = tiny_causal.model(METHODS[name], len(byte_pairs()))
    decoding = Decoding(**{"max_length": 5, "sampling": "greedy"} | options)  # as the command, unless it is told
    return [found.text for found in continue_prompts(model, byte_pairs(), prompts, decoding)]


def test_a_prompt(models: dict[str, str], tmp_path: Path, capsys, monkeypatch) -> None:
    given = (models["cpr"], "--new-tokens", "5")
    for sampling in ("greedy", "beams", "top-k"):
        (wanted,) = expected("cpr", [PROMPT], sampling=sampling)
        assert run(capsys, *given, "--prompt", PROMPT, "--sampling", sampling) == (f"{wanted}\n", "")
    other = ("--sampling", "top-k", "--seed", "3")
    assert expected("cpr", [PROMPT], sampling="top-k", seed=3) != [wanted]
    assert run(capsys, *given, "--prompt", PROMPT, *other)[0] != f"{wanted}\n"
    (tmp_path / "a.txt").write_text(PROMPT)
    (greedy,) = expected("cpr", [PROMPT])
    assert run(capsys, *given, "--file", str(tmp_path / "a.txt"))[0] == f"{greedy}\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PROMPT.encode())))
    assert run(capsys, *given, "--file", "-")[0] == f"{greedy}\n"


def test_models_side_by_side(models: dict[str, str], capsys) -> None:
    out, _ = run(capsys, *models.values(), "--prompt", PROMPT, "--new-tokens", "5", "--sampling", "greedy")
    texts = {name: expected(name, [PROMPT], sampling="greedy")[0].strip() for name in METHODS}
    assert texts["plain"] != texts["cpr"]
    assert out == f"plain:\n{texts['plain']}\n\ncpr:\n{texts['cpr']}\n\n"


def test_many_prompts_go_on_after_a_break(models: dict[str, str], tmp_path: Path, capsys) -> None:
    rows = [{"id": n, "prompt": f"{PROMPT} {'and Rome ' * n}"} for n in range(5)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    output = tmp_path / "out.jsonl"
    given = ("--file", str(tmp_path / "in.jsonl"), "--new-tokens", "5", "--batch", "2", "--output", str(output))
    run(capsys, *models.values(), *given)
    whole = output.read_bytes()
    found = [json.loads(line) for line in whole.decode().splitlines()]
    wanted = {name: expected(name, [row["prompt"] for row in rows], batch=2) for name in METHODS}
    assert found == [
        row | {"predictions": {name: texts[n] for name, texts in wanted.items()}} for n, row in enumerate(rows)
    ]
    output.write_bytes(b"".join(whole.splitlines(keepends=True)[:3]))
    run(capsys, *models.values(), *given)
    assert output.read_bytes() == whole
    err = run(capsys, models["cpr"], *given, code=2)[1]
    assert "was written with other settings: model was" in err


def test_a_long_prompt_loses_its_beginning(models: dict[str, str], capsys) -> None:
    count = len(byte_pairs()(PROMPT)["input_ids"])
    given = ("--prompt", PROMPT, "--new-tokens", "5", "--prompt-length", "4")
    err = run(capsys, models["cpr"], *given)[1]
    assert err == f"unbottle: warning: the prompt is too long: {count - 4} tokens at the beginning were dropped.\n"
    both = run(capsys, *models.values(), *given)[1]
    assert both.count("unbottle: warning: cpr: the prompt is too long") == 1


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "give either --prompt TEXT or --file FILE"),
        (("--prompt", "a", "--file", "b"), "give either --prompt TEXT or --file FILE"),
        (("--prompt", "a", "--sampling", "best"), "sampling 'best': unknown"),
        (("--prompt", "a", "--new-tokens", "300"), "reads and writes at most 256 tokens"),
        (("--prompt", "a", "--max-new-tokens", "0"), "'--max-new-tokens': Input should be greater than"),
        (
            ("--prompt", "a", "--sampling", "beams", "--beams", "0"),
            "'--beams': Input should be greater than",
        ),
        (("--file", "none.txt"), "No such file"),
        (("--file", "a.csv"), "generate does not read .csv"),
    ],
)
def test_refusals(
    args: tuple[str, ...], said: str, models: dict[str, str], tmp_path: Path, capsys, monkeypatch
) -> None:
    (tmp_path / "a.csv").write_text("prompt\n")
    monkeypatch.chdir(tmp_path)
    assert said in run(capsys, models["cpr"], *args, code=2)[1]
