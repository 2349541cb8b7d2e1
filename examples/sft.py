"""Fine-tune a model with TRL, with a new output layer: python examples/sft.py [model] [method]

Without a model it takes a tiny random one, so that it runs anywhere in seconds. Needs `pip install 'unbottle[trl]'`.
"""

from __future__ import annotations

import sys
import tempfile

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

import unbottle

WORDS = ["<pad>", "<eos>", "<unk>", "the", "king", "and", "his", "woman", "saw", "a", "man", "with", "her", "queen"]
TEXTS = ["the king saw the woman and the woman saw the king", "a man saw a queen and the queen saw the man"] * 16
TINY = LlamaConfig(
    vocab_size=len(WORDS), hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4,
    pad_token_id=0, eos_token_id=1,
)  # fmt: skip


def base(name: str | None) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    torch.manual_seed(0)
    if name:
        return AutoModelForCausalLM.from_pretrained(name), AutoTokenizer.from_pretrained(name)
    words = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = {"pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<unk>"}
    return LlamaForCausalLM(TINY), PreTrainedTokenizerFast(tokenizer_object=words, **special)


def main(name: str | None = None, method: str = "softmax+cpr:4,8+mi") -> list[float]:
    """Train, save, load, generate; the losses on the way."""
    model, tokenizer = base(name)
    unbottle.attach(model, method)  # the one line; TRL's trainers then train the head too
    with tempfile.TemporaryDirectory() as folder:
        arguments = SFTConfig(
            folder, max_steps=20, learning_rate=1e-2, logging_steps=5, save_strategy="no", report_to=[], use_cpu=True,
            bf16=False, dataloader_pin_memory=False, disable_tqdm=True,
        )  # fmt: skip
        data = Dataset.from_list([{"text": text} for text in TEXTS])
        trainer = SFTTrainer(model, arguments, train_dataset=data, processing_class=tokenizer)
        trainer.train()
        trainer.save_model(folder)  # model, head and tokenizer
        again = unbottle.load(folder)
    prompt = tokenizer("the king saw", return_tensors="pt", return_token_type_ids=False)
    print(tokenizer.decode(again.generate(**prompt, max_new_tokens=8, do_sample=False)[0]))
    return [row["loss"] for row in trainer.state.log_history if "loss" in row]


if __name__ == "__main__":
    main(*sys.argv[1:])
