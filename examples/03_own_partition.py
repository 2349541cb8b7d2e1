"""Write your own partition: python examples/03_own_partition.py [model] [method]

Words that followed the current word earlier in the context get their own projection: letter n of the method language.
The default model, gpt2, is downloaded from the Hugging Face Hub; a folder works too.
"""

import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import unbottle
from unbottle.head import Needs, Partition, register
from unbottle.method import Letter
from unbottle.ops import Words

TEXT = "Anna met Boris in Rome. Later Anna met Boris in Oslo, and in Oslo Boris met Chen. Then Chen met Anna in Rome."


class Next(Partition):
    """S = {x | x followed an earlier occurrence of the word at t},   Logit(x, c_t) = f_N . w_x."""

    order, name = 45, "N"  # after C (40), before PD (50): later partitions overwrite earlier ones
    where, what = "x after the same word in c_t", "f_N . w_x"
    needs = (Needs("N"),)

    def words(self, x, logits):
        text = x.context
        after = text.ids.roll(1, dims=1)[:, None] == text.ids[:, x.positions, None]  # B T N: follows the word at t
        after[..., 0] = False
        followers = (after & text.visible).long()
        first = text.first[:, None].expand_as(followers)  # a set has each word once: at its first occurrence
        return Words(text.ids[:, None], torch.zeros_like(followers).scatter_add(-1, first, followers) > 0)

    def score(self, x, words, now):
        return x.embedding.at(x.f("N"), words)


register(Letter(letter="n", meaning="words that followed this word before"), lambda config: [Next()])


def main(name: str = "gpt2", method: str = "softmax+n", steps: int = 20) -> list[torch.Tensor]:
    """Train only the head on one text; return the loss of each step."""
    model, tokenizer = AutoModelForCausalLM.from_pretrained(name), AutoTokenizer.from_pretrained(name)
    unbottle.attach(model.requires_grad_(False), method)
    ids = tokenizer(TEXT, return_tensors="pt")["input_ids"]
    optimizer, losses = torch.optim.AdamW(model.head.parameters(), lr=1e-3), []
    for _ in range(steps):
        optimizer.zero_grad()
        losses.append(model(ids, labels=ids).loss)
        losses[-1].backward()
        optimizer.step()
    print(f"loss {losses[0].item():.3f} -> {losses[-1].item():.3f}")
    print(unbottle.explain(model.eval(), tokenizer, TEXT + " Anna met"))  # which partition set the logit of Boris?
    return losses


if __name__ == "__main__":
    main(*sys.argv[1:3])
