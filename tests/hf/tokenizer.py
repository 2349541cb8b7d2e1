"""A tokenizer for the tiny models: one word per id, w3 w4 w5 ..., after three special ones."""

from __future__ import annotations

from models import EOS, PAD, VOCABULARY
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

SPECIAL = {PAD: "<pad>", EOS: "<eos>", 2: "<unk>"}  # not w0 and w1: special words are found inside others, w1 in w11


def tokenizer(**options) -> PreTrainedTokenizerFast:
    vocabulary = {SPECIAL.get(number, f"w{number}"): number for number in range(VOCABULARY)}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token=SPECIAL[2]))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = {"pad_token": SPECIAL[PAD], "eos_token": SPECIAL[EOS], "unk_token": SPECIAL[2]}
    return PreTrainedTokenizerFast(tokenizer_object=made, **special | options)
