"""How large are the hidden states that a head reads, and by how much does a step of Adam move a logit?

    python scripts/state_sizes.py FOLDER [FOLDER ...]

For each model: the root mean square of a state (median over tokens) and the largest number, of the last layer and of
those below it; and by how many learning rates one step can move a logit through a projection whose result is divided by
the square root of its width: sum |h_i| sum |w_i| / sqrt(D).
"""

from __future__ import annotations

import sys

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer, logging

from unbottle.hf.pretrained import NO_CODE, SAFE
from unbottle.tables import Table

TEXT = (
    "The harbour of the old town was rebuilt in 1887, after a storm had destroyed the wooden piers. Anna Berg, the "
    "first engineer of the port, wrote in her diary that the piers of the new harbour would outlive the town. They did "
    "not: in 1951 the harbour was closed, and today two museums stand where the piers were. One shows the diary."
)


@torch.no_grad()
def sizes(folder: str) -> list[str]:
    """A line of the table."""
    seq2seq = AutoConfig.from_pretrained(folder, **NO_CODE).is_encoder_decoder
    model = (AutoModelForSeq2SeqLM if seq2seq else AutoModelForCausalLM).from_pretrained(folder, **SAFE).eval()
    ids = AutoTokenizer.from_pretrained(folder, **NO_CODE)(TEXT, return_tensors="pt")["input_ids"]
    inputs = {"input_ids": ids, **({"decoder_input_ids": ids[:, :40]} if seq2seq else {})}
    outputs = model(**inputs, output_hidden_states=True)
    states = outputs.decoder_hidden_states if seq2seq else outputs.hidden_states
    cells = [folder.rstrip("/").rpartition("/")[2]]
    for layer in (-1, -2, -3):
        size = states[layer][0].square().mean(-1).sqrt().median().item()
        cells += [f"{size:.1f}", f"{states[layer].abs().max().item():,.0f}"]
    weight = model.get_output_embeddings().weight
    step = states[-1][0].abs().sum(-1).median() * weight.abs().sum(-1).mean() / weight.shape[1] ** 0.5
    return [*cells, f"{step.item():,.0f}"]


if __name__ == "__main__":
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    header = ["", "last", "largest", "one below", "largest", "two below", "largest", "step, in learning rates"]
    print(Table(header, [sizes(folder) for folder in sys.argv[1:]]).markdown())
