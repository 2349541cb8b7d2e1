"""Fine-tune a model by LoRA, with a new output layer: python examples/lora.py [model] [method]

Without a model it takes a tiny random one, so that it runs anywhere in seconds. Needs `pip install 'unbottle[train]'`.
"""

from __future__ import annotations

import sys
import tempfile

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

import unbottle
from unbottle.hf.callback import HeadGradientCallback

TINY = LlamaConfig(
    vocab_size=99, hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4, pad_token_id=0
)


def base(name: str | None) -> LlamaForCausalLM:
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_pretrained(name) if name else LlamaForCausalLM(TINY)


def main(name: str | None = None, method: str = "softmax+cpr:20,50+mi") -> float:
    """Train, save, load; the largest difference between the logits before and after."""
    config = LoraConfig(
        task_type="CAUSAL_LM",
        r=8,
        modules_to_save=["head"],  # or the head would be frozen
        target_modules="all-linear",
        exclude_modules=r"head\..*",  # the head is trained as a whole, it needs no adapters of its own
    )
    model = get_peft_model(unbottle.attach(base(name), method), config)
    model.print_trainable_parameters()

    texts = torch.randint(1, 50, (32, 4)).repeat(1, 4)  # four words, again and again: something to copy
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, max_steps=20, learning_rate=1e-2, logging_steps=5, save_strategy="no", report_to=[], use_cpu=True,
            dataloader_pin_memory=False, disable_tqdm=True,
        )  # fmt: skip
        data = [{"input_ids": text, "labels": text} for text in texts]
        # HeadGradientCallback stops a training that leaves out the head, for whatever reason.
        Trainer(model, arguments, train_dataset=data, callbacks=[HeadGradientCallback()]).train()

        model.save_pretrained(folder)  # adapters and head; the base model is not in there
        again = PeftModel.from_pretrained(unbottle.attach(base(name), method), folder)
    with torch.no_grad():
        difference = (again.eval()(texts[:2]).logits - model.eval()(texts[:2]).logits).abs().max().item()
    print(f"saved and loaded: the logits differ by {difference}")
    return difference


if __name__ == "__main__":
    main(*sys.argv[1:])
