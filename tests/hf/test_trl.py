"""TRL's trainers run unchanged, and they train the head."""

from __future__ import annotations

import copy
import inspect

import pytest
import torch
from models import shaken, tiny, words
from tokenizer import tokenizer
from trainers import without_dropout

from unbottle.hf import attach

trl = pytest.importorskip("trl", reason="needs trl: pip install 'unbottle[trl]'")
pytestmark = pytest.mark.filterwarnings("ignore::trl.import_utils.TRLExperimentalWarning")

from datasets import Dataset  # noqa: E402
from trl.trainer.utils import add_fused_lm_head  # noqa: E402

METHODS = ["softmax+cpr:5,20+mi", "ps+mi", "mos"]
EVERY = ("log_probs", "entropy", "log_sum_sq_probs", "mean_logits", "is_top1")


def attached(method: str, name: str = "llama"):
    model = tiny(name)
    torch.manual_seed(0)
    return shaken(attach(model, method))


QUIET = {"report_to": [], "disable_tqdm": True, "use_cpu": True, "dataloader_pin_memory": False, "save_strategy": "no"}
SETTINGS = {"max_steps": 1, "logging_steps": 1, "per_device_train_batch_size": 4, "learning_rate": 1e-2}
SETTINGS = QUIET | SETTINGS | {"bf16": False, "gradient_checkpointing": False}


def sft(model, folder, **options):
    data = [{"input_ids": words(1, length, seed=length)[0].tolist()} for length in (9, 4, 7, 5)]
    args = trl.SFTConfig(output_dir=str(folder), **SETTINGS | options)
    rows = Dataset.from_list([row | {"labels": row["input_ids"]} for row in data])
    return trl.SFTTrainer(
        model=without_dropout(model), args=args, train_dataset=rows, processing_class=tokenizer(),
    )  # fmt: skip


def first_loss(trainer) -> float:
    trainer.train()
    return trainer.state.log_history[0]["loss"]


def dpo(model, folder):
    rows = [{"prompt": "w5 w6 w7", "chosen": "w8 w9 w5", "rejected": "w10 w11"}] * 4
    args = trl.DPOConfig(output_dir=str(folder), **SETTINGS)
    return trl.DPOTrainer(
        model=model, ref_model=copy.deepcopy(model), args=args, train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer(),
    )  # fmt: skip


def grpo(model, folder):
    def rank(completions, **kwargs) -> list[float]:
        return [float(place) for place, _ in enumerate(completions)]

    sampling = {"num_generations": 2, "max_completion_length": 6, "temperature": 0.9}
    return trl.GRPOTrainer(
        model=model, reward_funcs=rank, args=trl.GRPOConfig(output_dir=str(folder), **SETTINGS | sampling),
        train_dataset=Dataset.from_list([{"prompt": "w5 w6 w7"}] * 4), processing_class=tokenizer(),
    )  # fmt: skip


def untouched(model, make, *args, **options) -> list[str]:
    """The tensors of the head that a training leaves as they were."""
    before = {key: value.detach().clone() for key, value in model.head.named_parameters()}
    make(model, *args, **options).train()
    return [key for key, value in model.head.named_parameters() if torch.equal(before[key], value)]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("how", [{}, {"bf16": True, "gradient_checkpointing": True}], ids=["float32", "bf16"])
def test_the_stock_trainer_trains_every_tensor_of_the_head(method, how, tmp_path):
    assert untouched(attached(method), sft, tmp_path, **how) == []


@pytest.mark.parametrize("make", [dpo, grpo])
@pytest.mark.parametrize("method", METHODS[:2])
def test_other_trainers_train_it_too(method, make, tmp_path):
    assert untouched(attached(method), make, tmp_path) == []


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("accumulate", [1, 2])
def test_the_first_loss_of_a_fresh_head_is_that_of_the_plain_model(method, accumulate, tmp_path):
    cut = {"gradient_accumulation_steps": accumulate, "per_device_train_batch_size": 4 // accumulate}
    plain = first_loss(sft(tiny("llama"), tmp_path, **cut))
    assert first_loss(sft(attach(tiny("llama"), method), tmp_path, **cut)) == pytest.approx(plain, abs=1e-4)
    assert first_loss(sft(attached(method), tmp_path, **cut)) != pytest.approx(plain, abs=1e-3)


@pytest.mark.parametrize("how", [{"padding_free": True, "max_length": None}, {"packing": True, "max_length": 16}])
def test_packing_keeps_documents_apart(how, tmp_path, caplog):
    """The loss of packed rows is the loss of the same rows with padding."""
    padded = first_loss(sft(attached(METHODS[0]), tmp_path))
    trainer = sft(attached(METHODS[0]), tmp_path, **how)
    assert first_loss(trainer) == pytest.approx(padded, abs=1e-4)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_a_fresh_head_answers_what_trl_computes_itself(temperature):
    ids, labels = words(), words().clone()
    labels[0, :3] = -100
    plain, ours = tiny("gemma2"), attach(tiny("gemma2"), "softmax+cpr:5,20+mi")
    answers = []
    for model in (plain, ours):
        add_fused_lm_head(model, temperature=temperature, outputs=EVERY)
        answer = model(input_ids=ids, labels=labels, fused_lm_head=True)
        (answer.log_probs.sum() + answer.entropy.sum()).backward()
        answers.append(answer)
    want, got = answers
    for name in (*EVERY, "label_mask"):
        expected = getattr(want, name)
        torch.testing.assert_close(getattr(got, name).to(expected), expected, atol=1e-4, rtol=1e-4)
    if temperature == 1.0:
        torch.testing.assert_close(got.loss, want.loss)
    mine = dict(ours.named_parameters())
    for name, parameter in plain.named_parameters():
        torch.testing.assert_close(mine[name].grad, parameter.grad, atol=1e-4, rtol=1e-3, msg=lambda text: text)


@pytest.mark.parametrize("method", METHODS)
def test_the_answer_is_that_of_the_head(method):
    model, ids = attached(method), words()
    want = model(input_ids=ids, labels=ids)
    add_fused_lm_head(model, outputs=EVERY)
    got = model(input_ids=ids, labels=ids, fused_lm_head=True)
    log_probs = want.logits.log_softmax(-1)[:, :-1]
    torch.testing.assert_close(got.loss, want.loss)
    torch.testing.assert_close(got.log_probs, log_probs.gather(-1, ids[:, 1:, None])[..., 0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(got.entropy, -(log_probs.exp() * log_probs).sum(-1), atol=1e-5, rtol=1e-5)
    assert torch.equal(got.is_top1, log_probs.argmax(-1) == ids[:, 1:])
    assert torch.equal(model(input_ids=ids).logits, want.logits), "without the question, the usual answer"
    assert model.head_is_active()


def test_a_batch_without_labels_has_the_loss_zero():
    """As in TRL, where the prompt of an evaluation fills the whole row; not 0 / 0."""
    ids = words()
    for model in (tiny("llama"), attached(METHODS[0])):
        add_fused_lm_head(model)
        loss = model(input_ids=ids, labels=torch.full_like(ids, -100), fused_lm_head=True).loss
        loss.backward()
        assert loss.item() == 0.0


def test_the_balance_of_experts_is_in_the_loss():
    answers = []
    for make in (lambda model: model, lambda model: attach(model, METHODS[0])):
        model = tiny("mixtral")
        model.config.output_router_logits = True
        add_fused_lm_head(make(model))
        answers.append(model(input_ids=words(), labels=words(), fused_lm_head=True))
    torch.testing.assert_close(answers[1].aux_loss, answers[0].aux_loss)
    torch.testing.assert_close(answers[1].loss, answers[0].loss)
    assert answers[0].aux_loss > 0


def test_output_embeddings_of_another_dtype_are_refused():
    with pytest.raises(NotImplementedError, match=r"cast_lm_head_to_fp32=True.*Leave it out"):
        add_fused_lm_head(attached(METHODS[0], "llama-untied"), cast_lm_head_to_fp32=True)


def test_generate_and_signature_are_as_before():
    model, ids = attached(METHODS[0]), words()
    options = {"max_new_tokens": 4, "do_sample": False, "num_beams": 2}
    want, signature = model.generate(ids, **options), inspect.signature(model.forward)
    add_fused_lm_head(model)
    assert torch.equal(model.generate(ids, **options), want)
    assert inspect.signature(model.forward) == signature


def test_lora_and_the_head_are_trained_together(tmp_path):
    peft = pytest.importorskip("peft", reason="needs peft: pip install 'unbottle[train]'")
    config = peft.LoraConfig(r=4, task_type="CAUSAL_LM", modules_to_save=["head"])
    model = peft.get_peft_model(attached(METHODS[0]), config)
    before = {key: value.clone() for key, value in peft.get_peft_model_state_dict(model).items()}
    first_loss(sft(model, tmp_path))
    after = peft.get_peft_model_state_dict(model)
    head = [key for key in before if ".head." in key and not key.endswith(".head.form")]  # form: a mark, no parameter
    assert head
    assert not [key for key in head if torch.equal(before[key], after[key])]


def test_an_unknown_trl_is_refused(monkeypatch):
    monkeypatch.setattr(
        "unbottle.hf.integrations.trl.OPTIONS", ("temperature", "outputs", "cast_lm_head_to_fp32", "something_new")
    )
    with pytest.raises(NotImplementedError, match=r"trl .*does not know \(no something_new\).*left out"):
        add_fused_lm_head(attached(METHODS[0]))


def test_an_encoder_decoder_is_refused():
    with pytest.raises(NotImplementedError, match="decoder-only models; this is a T5ForConditionalGeneration"):
        add_fused_lm_head(attached("s+cepr:20+mi", "t5"))
