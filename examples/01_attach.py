"""Attach a head to a model and look inside: python examples/01_attach.py [model] [method]

The default model, gpt2, is downloaded from the Hugging Face Hub; a folder works too.
"""

from __future__ import annotations

import sys
import tempfile

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import unbottle

PROMPT = "We have tea, milk and juice. I do not like milk or juice, so I would like some"


def main(name: str = "gpt2", method: str = "softmax+cpr:20,100+mi") -> float:
    """Attach, predict, turn a knob, save and load; return how far a fresh head is from the plain model."""
    model, tokenizer = AutoModelForCausalLM.from_pretrained(name).eval(), AutoTokenizer.from_pretrained(name)
    ids = tokenizer(PROMPT, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        before = model(ids).logits.log_softmax(-1)

    unbottle.attach(model, method)  # the only line that changes

    with torch.no_grad():
        difference = (model(ids).logits.log_softmax(-1) - before).abs().max().item()
    print(f"{method} adds {sum(p.numel() for p in model.head.parameters()):,} parameters")
    print(f"a fresh head predicts what the model predicted: log-probabilities differ by at most {difference:.1e}\n")

    print(unbottle.explain(model, tokenizer, PROMPT))  # which partition set each logit

    settings = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": tokenizer.eos_token_id}
    with unbottle.knobs(model, copy_bias=3.0):  # words of the context become more likely
        generated = model.generate(ids, **settings)
    print(f"\nwith copy_bias=3:{tokenizer.decode(generated[0, ids.shape[1] :])}")

    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        loaded = unbottle.load(folder)
    assert torch.equal(loaded.generate(ids, **settings), model.generate(ids, **settings))
    return difference


if __name__ == "__main__":
    main(*sys.argv[1:])
