"""lm-evaluation-harness scores a model with a head, from an object or a directory, as it scores any other."""

from __future__ import annotations

import pytest
import torch
from models import EOS, shaken, tiny
from tokenizer import SPECIAL, tokenizer

from unbottle.hf import attach

lm_eval = pytest.importorskip("lm_eval", reason="needs lm_eval: make test-ecosystem installs it")
from datasets import Dataset  # noqa: E402
from lm_eval.api.instance import Instance  # noqa: E402
from lm_eval.api.task import ConfigurableTask  # noqa: E402
from lm_eval.models.huggingface import HFLM  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402

CASES = [
    ("gpt2", "softmax+cpr:5,20+mi"),
    ("llama", "ps+mi"),
    ("gemma2", "mos+c"),
    ("t5", "s+cepr:20+mi"),
    ("bart", "pg"),
]
MODELS = pytest.mark.parametrize(("name", "method"), CASES)
ORIGINS = pytest.mark.parametrize(("origin", "batch_size"), [("object", 1), ("object", 3), ("directory", 3)])
PAIRS = [("w5 w6 w7 w5", " w6 w7"), ("w9", " w9 w10 w11 w9"), ("w20 w21 w20 w21", " w20"), ("w20 w21 w20 w21", " w8")]
TEXTS = ["w5 w6 w7 w5 w6", "w9", "w20 w21 w20 w21 w20 w21 w8 w9 w10 w20 w21"]
WINDOW, NEW = 8, 6
GREEDY = {"do_sample": False, "suppress_tokens": [*SPECIAL]}  # the harness leaves special words out of what it returns


def attached(name: str, method: str):
    model = tiny(name)
    torch.manual_seed(0)
    return shaken(attach(model, method))


def harness(model, origin: str, folder, **options) -> HFLM:
    if origin == "object":
        return HFLM(pretrained=model, tokenizer=tokenizer(), **options)
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return HFLM(pretrained=str(folder), device="cpu", **options)


def asked(kind: str, *questions: tuple) -> list[Instance]:
    return [Instance(kind, {}, arguments, number) for number, arguments in enumerate(questions)]


@torch.no_grad()
def log_likelihood(model, before: list[int], after: list[int]) -> tuple[float, bool]:
    """Of `after`, and whether it is what the model would say: one row, no padding, the model's own logits."""
    if model.config.is_encoder_decoder:
        start = model.config.decoder_start_token_id
        rows = {"input_ids": torch.tensor([before]), "decoder_input_ids": torch.tensor([[start, *after[:-1]]])}
    else:
        rows = {"input_ids": torch.tensor([[*before, *after[:-1]]])}
    log_probs = model(**rows).logits[0, -len(after) :].log_softmax(-1)
    return sum(row[word].item() for row, word in zip(log_probs, after, strict=True)), log_probs.argmax(
        -1
    ).tolist() == after


def ids(text: str) -> list[int]:
    return tokenizer()(text).input_ids


@MODELS
@ORIGINS
def test_the_likelihood_of_a_continuation(name, method, origin, batch_size, tmp_path):
    model = attached(name, method)
    [best] = model.generate(torch.tensor([ids("w5 w6")]), do_sample=False, max_new_tokens=2)[:, -2:].tolist()
    pairs = [*PAIRS, ("w5 w6", " " + tokenizer().decode(best))]  # one that the model would say itself
    got = harness(model, origin, tmp_path, batch_size=batch_size).loglikelihood(asked("loglikelihood", *pairs))
    want = [log_likelihood(model, ids(before), ids(after)) for before, after in pairs]
    assert [value for value, _ in got] == pytest.approx([value for value, _ in want], abs=1e-4)
    assert [greedy for _, greedy in got] == [greedy for _, greedy in want]
    assert want[-1][1]


@MODELS
@ORIGINS
def test_the_likelihood_of_a_text_longer_than_the_window(name, method, origin, batch_size, tmp_path):
    model = attached(name, method)
    scorer = harness(model, origin, tmp_path, batch_size=batch_size, max_length=WINDOW)
    got = scorer.loglikelihood_rolling(asked("loglikelihood_rolling", *((text,) for text in TEXTS)))
    assert got == pytest.approx([rolling(model, [EOS, *ids(text)]) for text in TEXTS], abs=1e-4)


def rolling(model, words: list[int]) -> float:
    """Window by window; the last one reaches back as far as there is room, and scores only what is new."""
    total = 0.0
    for first in range(1, len(words), WINDOW):
        end = min(first + WINDOW, len(words))
        total += log_likelihood(model, words[min(first - 1, max(end - WINDOW - 1, 0)) : first], words[first:end])[0]
    return total


@MODELS
@ORIGINS
def test_generation_until_a_word(name, method, origin, batch_size, tmp_path):
    model = attached(name, method)
    scorer = harness(model, origin, tmp_path, batch_size=batch_size)

    def through(until: list[str]) -> list[str]:
        settings = GREEDY | {"max_gen_toks": NEW, "until": until}
        return scorer.generate_until(asked("generate_until", *((text, settings) for text in TEXTS)))

    whole = through([])
    for text, got in zip(TEXTS, whole, strict=True):
        count = len(got.split())  # the harness counts the words that an encoder read as written: room for more
        assert count >= NEW if model.config.is_encoder_decoder else count == NEW
        made = model.generate(torch.tensor([ids(text)]), **GREEDY, max_new_tokens=count)
        assert got == tokenizer().decode(made[0, -count:])
    stop = whole[-1].split()[-1]
    assert through([stop]) == [text.split(stop)[0] for text in whole]


def choices() -> ConfigurableTask:
    """A multiple-choice task made on the spot: which of two words goes on a text."""
    rows = [
        {"text": text, "choices": ["w8", text.split()[0]], "label": number % 2} for number, text in enumerate(TEXTS)
    ]
    config = {
        "task": "which_word",
        "custom_dataset": lambda **options: {"test": Dataset.from_list(rows)},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "{{text}}",
        "doc_to_choice": "choices",
        "doc_to_target": "label",
        "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
    }
    return ConfigurableTask(config=config)


@MODELS
@pytest.mark.parametrize("origin", ["object", "directory"])
def test_a_whole_evaluation(name, method, origin, tmp_path):
    model, task = attached(name, method), choices()
    scorer = harness(model, origin, tmp_path, batch_size=2)
    no_others = TaskManager(include_defaults=False)  # to list the thousands that the harness has takes half a minute
    got = lm_eval.simple_evaluate(scorer, tasks=[task], task_manager=no_others, bootstrap_iters=0)
    right = []
    for row, sample in zip(task.dataset["test"], got["samples"]["which_word"], strict=True):
        want = [log_likelihood(model, ids(row["text"]), ids(word))[0] for word in row["choices"]]
        assert [value for value, _ in sample["filtered_resps"]] == pytest.approx(want, abs=1e-4)
        right.append(want.index(max(want)) == row["label"])
    assert got["results"]["which_word"]["acc,none"] == pytest.approx(sum(right) / len(right))
