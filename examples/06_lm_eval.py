"""Evaluate a model with a head with EleutherAI's lm-evaluation-harness: python examples/06_lm_eval.py [model] [method]

The task is defined in this file: which of two names was it? For the harness's own tasks use `unbottle eval lm-eval`.
The default model, gpt2, is downloaded from the Hugging Face Hub. Needs `pip install 'lm_eval[hf]'`.
"""

from __future__ import annotations

import sys

import lm_eval
from datasets import Dataset
from lm_eval.api.task import ConfigurableTask
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager
from transformers import AutoModelForCausalLM, AutoTokenizer

import unbottle

NAMES = ("Anna", "Boris", "Chen", "Dora")
ROWS = [
    {"text": f"{one} met {two}. When {two} left, {one} waved to", "choices": [f" {one}", f" {two}"], "label": 1}
    for one in NAMES
    for two in NAMES
    if one != two
]


def task() -> ConfigurableTask:
    config = {
        "task": "who_left",
        "custom_dataset": lambda **options: {"test": Dataset.from_list(ROWS)},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "{{text}}",
        "doc_to_choice": "choices",
        "doc_to_target": "label",
        "target_delimiter": "",
        "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
    }
    return ConfigurableTask(config=config)


def main(name: str = "gpt2", method: str = "softmax+cpr:20,100+mi") -> dict[str, float]:
    """Return the accuracy of the plain model and of the same model with a fresh head, which must agree."""
    model, tokenizer = AutoModelForCausalLM.from_pretrained(name), AutoTokenizer.from_pretrained(name)
    accuracies = {}
    for which in ("plain", method):
        if which == method:
            unbottle.attach(model, method)  # the harness still sees the model class it knows
        scorer, manager = HFLM(pretrained=model, tokenizer=tokenizer), TaskManager(include_defaults=False)
        results = lm_eval.simple_evaluate(scorer, tasks=[task()], task_manager=manager, bootstrap_iters=0)
        accuracies[which] = results["results"]["who_left"]["acc,none"]
    print(accuracies)
    return accuracies


if __name__ == "__main__":
    main(*sys.argv[1:])
