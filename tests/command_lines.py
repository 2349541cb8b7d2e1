"""For every command a line that works, and how each kind of wrong input gets into it.

Names in braces are of files that the tests make; {wrong} is what is wrong. A line that starts with ... is the one that
works with more behind it: of an option that is there twice the last counts, and of models and methods all.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from unbottle.cli.main import main

WORKS = "..."


def run_command(capsys: pytest.CaptureFixture, *words: str, code: int = 0) -> tuple[str, str]:
    """What a command prints on stdout and stderr. A refusal is one line, and nothing else."""
    ended = main([*words])
    out, err = capsys.readouterr()
    assert ended == code, err
    if code == 2:
        assert out == ""
        assert err.startswith("unbottle: error: ")
        assert err.count("\n") == 1
    return out, err


@dataclass(frozen=True, kw_only=True)
class Line:
    """A tuple has the lines to try; a text says why there is nothing to try."""

    works: str
    interrupt: str  # what it calls on the way
    method: tuple[str, ...] | str = "it takes no method: models have theirs"
    file: tuple[str, ...] | str
    model: tuple[str, ...] | str
    takes: str = "causal"  # the kind of model: causal, seq2seq or any
    output: tuple[str, ...] | str = ("... --output {wrong}",)
    elsewhere: tuple[str, ...] = ()  # more folders that cannot be written; full disks there have tests of their own
    quick: bool = True  # run to the end here; the others have tests of their own

    def cases(self, kind: str) -> list[str]:
        found = getattr(self, kind)
        return [] if isinstance(found, str) else [line.replace(WORKS, self.works) for line in found]


LINES = {
    "demo": Line(
        works="--plan tiny --output {output}", interrupt="unbottle.experiments.demo:run_contexts", quick=False,
        method="it compares two methods of its own", file="its text is the standard library", model="it has its own",
        elsewhere=("--plan full --seeds 1 --output {output} --cache {wrong}",),
    ),
    "app": Line(
        works="{causal}", interrupt="unbottle.cli.app:show", quick=False,
        model=("{wrong}", "... {wrong}"), takes="any", file="it reads models alone", output="it writes nothing",
    ),
    "report": Line(
        works="{run} --output {output}.html", interrupt="unbottle.report.page:page",
        file=("{wrong}", "... {wrong}"), model="it reads results alone",
    ),
    "methods": Line(
        works="softmax+c --model {causal}", interrupt="unbottle.cli.methods:plain_model",
        method=("{wrong}", "... {wrong}"), model=("... --model {wrong}",), takes="any",
        file="it reads configs of models alone", output="it prints",
    ),
    "doctor": Line(
        works="", interrupt="unbottle.cli.doctor:checks",
        file="it reads nothing", model="it loads nothing", output="it prints",
    ),
    "generate": Line(
        works="{causal} --file {text} --max-new-tokens 3 --output {output}.txt",
        interrupt="unbottle.cli.generate:GenerationJob.one",
        file=("... --file {wrong}", "... --file {wrong}.txt"), model=("{wrong} --prompt a", "... {wrong}"),
    ),
    "bench": Line(
        works="--shape tiny --measure loss --repeats 1 --threads 1 --no-memory --method softmax+c --output {output}",
        interrupt="unbottle.bench.run:work", method=("... --method {wrong}",),
        file="its inputs are random", model="its weights are random",
    ),
    "reproduce": Line(
        works="order-bias --preset tiny --data {text} --method softmax+mi --work {output}-work --output {output}",
        interrupt="unbottle.experiments.workspace:LanguageWorkspace.trained_model", quick=False,
        method=("... --method {wrong}",), file=("... --data {wrong}", "analogy --preset tiny --pairs {wrong}"),
        model=("... --model {wrong}",),
        elsewhere=("... --work {wrong}",),
    ),
    "compare": Line(
        works="--model {causal} --data {text} --tokens 64 --valid-tokens 16 --test-tokens 16 --length 8 --seeds 1 "
        "--lr 1e-3 --method softmax+c --work {output}-work --output {output}",
        interrupt="unbottle.experiments.compare:CompareWorkspace.trained_model", quick=False,
        method=("... --method {wrong}",), file=("... --data {wrong}",), model=("... --model {wrong}",),
        elsewhere=("... --work {wrong}",),
    ),
    "summarize": Line(
        works="{text} --model {seq2seq} --max-new-tokens 4 --output {output}.txt",
        interrupt="unbottle.cli.generate:GenerationJob.one",
        file=("{wrong} --model {seq2seq}", "{wrong}.txt --model {seq2seq}"), model=("... --model {wrong}",),
        takes="seq2seq",
    ),
    "train lm": Line(
        works="--model {causal} --data {text} --method softmax+c --length 8 --max-steps 1 --output {output}",
        interrupt="unbottle.cli.train:windows", quick=False,
        method=("... --method {wrong}",), model=("... --model {wrong}",),
        file=(
            "... --data {wrong}", "... --eval-data {wrong}",
            "--config {wrong} --tokenizer {causal} --data {text} --output {output}",
            "--config {causal}/config.json --tokenizer {wrong} --data {text} --output {output}",
        ),
    ),
    "train summarize": Line(
        works="--model {seq2seq} --data {pairs} --method s+c --max-steps 1 --output {output}",
        interrupt="unbottle.cli.train:pair_rows", quick=False,
        method=("... --method {wrong}",), model=("... --model {wrong}",), takes="seq2seq",
        file=(
            "... --data {wrong}", "... --eval-data {wrong}",
            "--config {wrong} --tokenizer {seq2seq} --data {pairs} --output {output}",
            "--config {seq2seq}/config.json --tokenizer {wrong} --data {pairs} --output {output}",
        ),
    ),
    "eval perplexity": Line(
        works="{causal} --data {text} --part all --length 8 --tagger none --output {output}",
        interrupt="unbottle.eval.perplexity:perplexity",
        file=("... --data {wrong}",), model=("... {wrong}", "... --reference {wrong}"),
    ),
    "eval completion": Line(
        works="{causal} --data {text} --part all --prompts 3 --words 3 --samples 2 --tagger rules --output {output}",
        interrupt="unbottle.eval.completion:completion",
        file=("... --data {wrong}", "--from {wrong}"), model=("{wrong} --data {text} --part all --tagger rules",),
    ),
    "eval lm-eval": Line(
        works="{causal} --tasks piqa --output {output}", interrupt="unbottle.eval.harness:harness", quick=False,
        file="its tasks name their data", model=("{wrong} --tasks piqa",), takes="any",
    ),
    "eval analogy": Line(
        works="{causal} --size 2 --kind edge --relation family --output {output}",
        interrupt="unbottle.eval.analogy:analogy",
        file=("... --pairs {wrong}",), model=("... {wrong}",),
        output=("... --output {wrong}", "... --write {wrong}", "... --training-text {wrong}"),
    ),
    "eval probe": Line(
        works="{causal} --prompt [tea]_[milk]_or --shuffles 2 --output {output}",
        interrupt="unbottle.eval.next_words:probe",
        file="its prompts stand on the line", model=("... {wrong}",), elsewhere=("... --picture {wrong}",),
    ),
    "eval summaries": Line(
        works="--predictions {pairs} --prediction-column summary --metrics length --output {output}",
        interrupt="unbottle.cli.eval_summaries:evaluate",
        file=("... --predictions {wrong}", "... --data {wrong}", "... --against {wrong}"),
        model=("--model {wrong} --data {pairs} --metrics length --output {output}",), takes="seq2seq",
    ),
}  # fmt: skip
