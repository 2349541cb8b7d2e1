"""Tokenizers trained here: byte-level pairs, as GPT-2's, for machines that can not download one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

END = "<|endoftext|>"
PADDING, START, STOP = "<pad>", "<s>", "</s>"


def train_tokenizer(texts: Iterable[str], size: int) -> PreTrainedTokenizerFast:
    """Of a language model. Deterministic: the same texts give the same tokenizer."""
    tokenizer = _trained(texts, size, [END])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=END, eos_token=END, pad_token=END)


def train_pair_tokenizer(texts: Iterable[str], size: int) -> PreTrainedTokenizerFast:
    """Of an encoder-decoder model: a text ends with </s>, and padding is a token of its own."""
    tokenizer = _trained(texts, size, [PADDING, START, STOP])
    stop = (STOP, tokenizer.token_to_id(STOP))
    tokenizer.post_processor = processors.TemplateProcessing(single=f"$A {STOP}", special_tokens=[stop])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=START, eos_token=STOP, pad_token=PADDING)


def _trained(texts: Iterable[str], size: int, special: Sequence[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=list(special), initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer
