"""Fine-tune a model with TRL and a new output layer: python examples/05_trl_sft.py [model] [method]

The default model is downloaded from the Hugging Face Hub. Needs `pip install '.[trl]'` in a clone of the repository.
"""

from __future__ import annotations

import sys
import tempfile

from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

import unbottle

PROMPT = "the king saw"
TEXTS = ["the king saw the woman and the woman saw the king", "a man saw a queen and the queen saw the man"] * 16


def main(
    name: str = "HuggingFaceTB/SmolLM2-135M", method: str = "softmax+cpr:20,100+mi", **changes: object
) -> list[float]:
    """Train, save, load and generate; return the losses. `changes` are arguments of SFTConfig."""
    model, tokenizer = AutoModelForCausalLM.from_pretrained(name), AutoTokenizer.from_pretrained(name)
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    unbottle.attach(model, method)  # the only line that changes; TRL's trainers train the head too
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "max_steps": 20, "learning_rate": 1e-4, "logging_steps": 5, "save_strategy": "no", "report_to": [],
            "bf16": False, "dataloader_pin_memory": False, "disable_tqdm": True,
        }  # fmt: skip
        arguments = SFTConfig(folder, **settings | changes)
        data = Dataset.from_list([{"text": text} for text in TEXTS])
        trainer = SFTTrainer(model, arguments, train_dataset=data, processing_class=tokenizer)
        trainer.train()
        trainer.save_model(folder)  # model, head and tokenizer
        loaded = unbottle.load(folder)
    prompt = tokenizer(PROMPT, return_tensors="pt", return_token_type_ids=False)
    print(tokenizer.decode(loaded.generate(**prompt, max_new_tokens=8, do_sample=False)[0]))
    return [row["loss"] for row in trainer.state.log_history if "loss" in row]


if __name__ == "__main__":
    main(*sys.argv[1:])
