"""Score a model with a head on EleutherAI's lm-evaluation-harness: python examples/06_lm_eval.py [model]

Needs `pip install 'lm_eval[hf]'`. For the tasks that the harness has, `unbottle eval lm-eval MODEL --tasks NAME` is
shorter; here is one made on the spot: which of two names was it?
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
    """Accuracy of the plain model and of the same with a fresh head, which must agree; then train, and look again."""
    model, tokenizer = AutoModelForCausalLM.from_pretrained(name), AutoTokenizer.from_pretrained(name)
    found = {}
    for which in ("plain", method):
        if which == method:
            unbottle.attach(model, method)  # the harness sees the model class that it knows
        scorer, manager = HFLM(pretrained=model, tokenizer=tokenizer), TaskManager(include_defaults=False)
        got = lm_eval.simple_evaluate(scorer, tasks=[task()], task_manager=manager, bootstrap_iters=0)
        found[which] = got["results"]["who_left"]["acc,none"]
    print(found)
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
