"""A byte-level BPE tokenizer like GPT-2's, trained on a short text on the spot."""

from __future__ import annotations

import functools

from tokenizers import ByteLevelBPETokenizer, Tokenizer
from transformers import PreTrainedTokenizerFast

TEXT = (
    "The king of France met Anna in Paris . Anna said that the king was a well @-@ known man . \n"
    "She met the queen in London , and the queen said that Anna should go to Paris again , not to Zürich . \n"
)


def byte_pairs(text: str = TEXT, size: int = 300) -> PreTrainedTokenizerFast:
    """One of your own each time: a test may change it."""
    spelling = Tokenizer.from_str(_trained(text, size))
    return PreTrainedTokenizerFast(tokenizer_object=spelling, eos_token="<eos>", pad_token="<eos>")


@functools.cache
def _trained(text: str, size: int) -> str:
    made = ByteLevelBPETokenizer()
    made.train_from_iterator(
        [text] * 3, vocab_size=size, min_frequency=2, special_tokens=["<eos>"], show_progress=False
    )
    return made._tokenizer.to_str()
