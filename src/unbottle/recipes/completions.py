"""Text completion: ROUGE, proper nouns, CIDEr and NIST of what is generated (tb:gpt2_gen_other)."""

from __future__ import annotations

from typing import Any

from unbottle.eval.completion import Protocol, completion
from unbottle.eval.proper_nouns import tagger
from unbottle.recipes import paper
from unbottle.recipes.experiment import Column, Experiment
from unbottle.recipes.lab import Lab


def measure(lab: Lab, method: str, seed: int, size: str) -> dict[str, Any]:
    """The paper's protocol on sequences of the test text; the same ones for every method."""
    folder = lab.trained(method, seed, size=size)
    protocol = Protocol(samples=lab.preset.sequences, seed=seed, prompts=lab.preset.prompts)
    text = lab.tokenizer.decode(lab.corpus.test.tolist())
    found = completion(
        lab.load(folder), lab.tokenizer, [text], tagger=tagger(), protocol=protocol, output=folder.parent / "completion"
    )
    return {**found.scores["all"], "tagger": found.tagger, "continuations": found.continuations}


TABLE3 = Experiment(
    name="table3",
    title="Text completion (tb:gpt2_gen_other, of which tb:dynamic_partition_rouge_1 is a part)",
    methods=tuple(paper.COMPLETION),
    measure=measure,
    columns=tuple(
        Column(name, name, 3 if name in ("P Ratio", "CIDEr", "NIST") else 2) for name in paper.COMPLETION_COLUMNS
    ),
    paper_columns=paper.COMPLETION_COLUMNS,
    paper={"GPT-2 Small": paper.COMPLETION},
)
