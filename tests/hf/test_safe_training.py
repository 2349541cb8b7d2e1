"""One learning rate for model and head: a head that is trained as the model at hand is trained never makes it worse."""

from __future__ import annotations

import copy
import functools
import math

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

import unbottle
from unbottle.head.projection import DEFAULT_FORM, form_for

VOCABULARY, SIZE, LENGTH = 96, 256, 32
CPR = "softmax+cpr:5,20+mi"


@functools.cache
def texts(seed: int, number: int) -> torch.Tensor:
    """Each word has four likely followers, in another order than that of the vocabulary: the model learns them first.
    Now and then comes a word of the same text instead: there is something to learn from the context too."""
    followers = torch.stack([torch.randperm(VOCABULARY, generator=torch.Generator().manual_seed(n)) for n in range(4)])
    generator = torch.Generator().manual_seed(seed)

    def draw(most: int) -> int:
        return int(torch.randint(0, most, (), generator=generator))

    rows = []
    for _ in range(number):
        row = [draw(VOCABULARY)]
        while len(row) < LENGTH:
            row.append(row[draw(len(row))] if draw(10) == 0 else int(followers[draw(4), row[-1]]))
        rows.append(torch.tensor(row))
    return torch.stack(rows)


@functools.cache
def pretrained() -> LlamaForCausalLM:
    """A small Llama whose hidden states have what SmolLM2's have, as `outliers` measures it: a few dimensions that are
    ten to twenty times as large as the others, below the last norm and after it, and long states below it."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=SIZE, intermediate_size=256, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=LENGTH, tie_word_embeddings=False, initializer_range=0.05,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        model.model.embed_tokens.weight.mul_(100)
        model.model.embed_tokens.weight[:, :2] = torch.tensor([600.0, -400.0])
        model.model.norm.weight.mul_(4)
        model.lm_head.weight[:, :2] *= 0.01
        model.lm_head.weight.mul_(0.13 / model.lm_head.weight.std())
    fit(model, "all", 3e-3, steps=120, rows=texts(1, 480))
    return model


def outliers(model) -> dict[str, float]:
    """How large the states are that a head reads: their root mean square and the largest of a token, in its units."""
    with torch.no_grad():
        states = model(texts(3, 8), output_hidden_states=True).hidden_states
    found = {}
    for name, state in (("last", states[-1]), ("below", states[-2])):
        size = state.square().mean(-1).sqrt()
        found |= {name: size.median().item(), f"{name} outlier": (state.abs().amax(-1) / size).median().item()}
    return found


def fit(model, recipe: str, lr: float, *, steps: int = 30, rows: torch.Tensor | None = None, eps: float = 1e-8) -> None:
    if recipe == "head":
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name.startswith("head."))
    data = [{"input_ids": row, "labels": row} for row in (texts(2, 120) if rows is None else rows)]
    arguments = TrainingArguments(
        "unused", max_steps=steps, learning_rate=lr, per_device_train_batch_size=4, adam_epsilon=eps, report_to=[],
        save_strategy="no", logging_strategy="no", disable_tqdm=True, dataloader_pin_memory=False, use_cpu=True,
    )  # fmt: skip
    Trainer(model, arguments, train_dataset=data).train()


def after(recipe: str, lr: float, method: str | None, **options: str) -> float:
    """Perplexity of other texts, after training."""
    model = copy.deepcopy(pretrained())
    torch.manual_seed(0)
    if method is not None:
        unbottle.attach(model, method, **options)
    if recipe == "lora":
        with_head = {"modules_to_save": ["head"], "exclude_modules": r"head\..*"} if method is not None else {}
        model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", r=4, target_modules="all-linear", **with_head))
    if not (recipe == "head" and method is None):
        fit(model, recipe, lr)
    model.eval()
    with torch.no_grad():
        return math.exp(model(texts(3, 60), labels=texts(3, 60)).loss.item())


def test_the_model_has_the_outliers_of_a_real_one() -> None:
    found = outliers(pretrained())
    assert 1 < found["last"] < 8 < 20 < found["below"], found
    assert min(found["last outlier"], found["below outlier"]) > 4, found


@pytest.mark.parametrize("lr", [1e-3, pytest.param(1e-4, marks=pytest.mark.full)])  # with 1e-3 all goes further
@pytest.mark.parametrize("recipe", ["head", "lora", "all"])
def test_a_head_never_makes_a_model_worse(recipe: str, lr: float) -> None:
    plain = after(recipe, lr, None)
    forms = dict.fromkeys((DEFAULT_FORM, form_for(recipe)))
    ours = {(form, method): after(recipe, lr, method, form=form) for form in forms for method in ("softmax+mi", CPR)}
    assert max(ours.values()) < plain * 1.005, (plain, ours)


def test_the_paper_s_form_does() -> None:
    """So that the test above can fail."""
    assert after("all", 1e-3, CPR, form="paper") > 1.02 * after("all", 1e-3, None)
