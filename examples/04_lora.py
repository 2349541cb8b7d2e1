"""Fine-tune a model with LoRA and a new output layer: python examples/04_lora.py [model] [method]

The learning rate is the usual one for LoRA; the head does not need another. Method none is plain LoRA, for comparison.
The default model is downloaded from the Hugging Face Hub. Needs `pip install '.[train]'` in a clone of the repository.
"""

from __future__ import annotations

import sys
import tempfile

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

import unbottle
from unbottle.hf.integrations.callbacks import HeadGradientCallback

TEXTS = [f"{name} gave {name} a {thing}, and the {thing} was {name}'s." for name in ("Ada", "Boris", "Chen", "Dora")
         for thing in ("piano", "bicycle", "map", "gate", "coat", "lamp", "boat", "drum")]  # fmt: skip


def main(name: str = "HuggingFaceTB/SmolLM2-135M", method: str = "softmax+cpr:20,100+mi") -> tuple[list[float], float]:
    """Train, save and load; return the losses and the largest difference between logits before and after."""
    tokenizer = AutoTokenizer.from_pretrained(name)
    config = LoraConfig(
        task_type="CAUSAL_LM",
        r=8,
        modules_to_save=["head"] if method != "none" else None,  # otherwise the head would be frozen
        target_modules="all-linear",
    )
    model = get_peft_model(unbottle.attach(AutoModelForCausalLM.from_pretrained(name), method), config)
    model.print_trainable_parameters()

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, max_steps=20, learning_rate=1e-3, logging_steps=5, save_strategy="no", report_to=[],
            dataloader_pin_memory=False, disable_tqdm=True, per_device_train_batch_size=1,
        )  # fmt: skip
        ids = [tokenizer(text, return_tensors="pt")["input_ids"][0] for text in TEXTS]
        data = [{"input_ids": text, "labels": text} for text in ids]
        # HeadGradientCallback stops a training whose loss does not reach the head.
        callbacks = [HeadGradientCallback()] if method != "none" else []
        trainer = Trainer(model, arguments, train_dataset=data, callbacks=callbacks)
        trainer.train()

        model.save_pretrained(folder)  # adapters and head, without the base model
        plain = AutoModelForCausalLM.from_pretrained(name)
        loaded = PeftModel.from_pretrained(unbottle.attach(plain, method), folder).to(model.device)
    probe = ids[0][None].to(model.device)
    with torch.no_grad():
        difference = (loaded.eval()(probe).logits - model.eval()(probe).logits).abs().max().item()
    print(f"after saving and loading, logits differ by at most {difference}")
    return [row["loss"] for row in trainer.state.log_history if "loss" in row], difference


if __name__ == "__main__":
    main(*sys.argv[1:])
