"""Ways to decode. Each takes an attached model and checks one promise; a failure names what differed."""

from __future__ import annotations

import pytest
import torch
from models import EOS, PAD, words
from torch import Tensor
from transformers import DynamicCache, EncoderDecoderCache

NEW = 6
TOLERANCE = 1e-4


def close(got: Tensor, want: Tensor, what: str) -> None:
    torch.testing.assert_close(got, want, atol=TOLERANCE, rtol=TOLERANCE, msg=lambda text: f"{what}: {text}")


def generate(model, ids: Tensor, **options):
    options = {"max_new_tokens": NEW, "min_new_tokens": NEW, "do_sample": False} | options
    return model.generate(ids, **options, output_logits=True, return_dict_in_generate=True)


def full_logits(model, prompt: Tensor, sequences: Tensor, **masks: Tensor) -> Tensor:
    """What one call on the whole sequence says at the generated positions, without any cache."""
    if model.config.is_encoder_decoder:
        outputs = model(input_ids=prompt, decoder_input_ids=sequences[:, :-1], use_cache=False, **masks)
    else:
        outputs = model(input_ids=sequences[:, :-1], use_cache=False, **masks)
    return outputs.logits[:, -NEW:]


def same(a, b, what: str) -> None:
    assert torch.equal(a.sequences, b.sequences), f"{what}: {a.sequences.tolist()} != {b.sequences.tolist()}"
    close(torch.stack(a.logits), torch.stack(b.logits), what)


@torch.no_grad()
def greedy(model) -> None:
    """Cached decoding = uncached decoding = one pass over the whole sequence."""
    ids = words()
    cached = generate(model, ids)
    same(cached, generate(model, ids, use_cache=False), "cached, uncached")
    close(torch.stack(cached.logits, dim=1), full_logits(model, ids, cached.sequences), "decoding, one pass")


@torch.no_grad()
def beams(model) -> None:
    """Beam search with a cache = without = one written by hand."""
    ids = words()
    options = {"num_beams": 3, "num_return_sequences": 2, "length_penalty": 0.0, "output_scores": True}
    cached = generate(model, ids, **options)
    uncached = generate(model, ids, **options, use_cache=False)
    assert torch.equal(cached.sequences, uncached.sequences)
    close(cached.sequences_scores, uncached.sequences_scores, "scores of beams, cached and uncached")
    for row, ids_of_row in enumerate(ids):
        found = independent_beam_search(model, ids_of_row[None], width=3)[:2]
        close(
            cached.sequences_scores[2 * row : 2 * row + 2], torch.tensor([score for score, _ in found]), "beams by hand"
        )
        for got, (_, want) in zip(cached.sequences[2 * row : 2 * row + 2].tolist(), found, strict=True):
            assert got[-NEW:] == want[-NEW:]


def independent_beam_search(model, prompt: Tensor, width: int) -> list[tuple[float, list[int]]]:
    """Keep the `width` best sequences; extend each by every word; repeat."""
    encoder_decoder = model.config.is_encoder_decoder
    start = [model.generation_config.decoder_start_token_id] if encoder_decoder else prompt[0].tolist()
    kept = [(0.0, start)]
    for _ in range(NEW):
        extended = []
        for score, sequence in kept:
            ids = torch.tensor([sequence])
            inputs = {"input_ids": prompt, "decoder_input_ids": ids} if encoder_decoder else {"input_ids": ids}
            log_probs = model(**inputs, use_cache=False).logits[0, -1].float().log_softmax(-1)
            extended += [(score + value, [*sequence, word]) for word, value in enumerate(log_probs.tolist())]
        kept = sorted(extended, key=lambda pair: -pair[0])[:width]
    return kept


@torch.no_grad()
def sampling(model) -> None:
    """The same seed gives the same samples with and without a cache."""
    ids = words()
    runs = []
    for use_cache in (True, False):
        torch.manual_seed(11)
        runs.append(generate(model, ids, do_sample=True, top_k=20, num_return_sequences=3, use_cache=use_cache))
    same(*runs, "samples, cached and uncached")


@torch.no_grad()
def beam_sampling(model) -> None:
    ids = words()
    runs = []
    for use_cache in (True, False):
        torch.manual_seed(11)
        runs.append(generate(model, ids, do_sample=True, num_beams=2, use_cache=use_cache).sequences)
    assert torch.equal(*runs)


@torch.no_grad()
def padding(model) -> None:
    """A batch with padding = its rows one by one: left for the prompt of a decoder, right for an encoder.

    Encoders with relative positions take both sides; one that counts positions from the left edge cannot, head or not.
    """
    long, short = words(1, 9, seed=1), words(1, 5, seed=2)
    sides = ["right"] if model.config.is_encoder_decoder else ["left"]
    if "t5" in model.config.model_type:
        sides.append("left")
    for side in sides:
        empty = torch.full((1, 4), PAD)
        padded = torch.cat([empty, short] if side == "left" else [short, empty], dim=1)
        batch = torch.cat([long, padded])
        mask = torch.ones_like(batch)
        mask[1] = torch.cat([torch.zeros(4), torch.ones(5)] if side == "left" else [torch.ones(5), torch.zeros(4)])
        together = generate(model, batch, attention_mask=mask)
        for row, alone in enumerate([long, short]):
            single = generate(model, alone)
            assert together.sequences[row, -NEW:].tolist() == single.sequences[0, -NEW:].tolist(), side
            close(torch.stack(together.logits)[:, row], torch.stack(single.logits)[:, 0], f"{side} padding")


@torch.no_grad()
def batch(model) -> None:
    """A batch = its rows one by one."""
    ids = words(3)
    together = generate(model, ids)
    for row in range(3):
        single = generate(model, ids[row : row + 1])
        assert together.sequences[row].tolist() == single.sequences[0].tolist()
        close(torch.stack(together.logits)[:, row], torch.stack(single.logits)[:, 0], "batch, single")


@torch.no_grad()
def static_cache(model) -> None:
    ids = words()
    want = generate(model, ids)
    same(generate(model, ids, cache_implementation="static", disable_compile=True), want, "static cache")
    same(generate(model, ids, cache_implementation="static", disable_compile=True), want, "static cache, used again")
    mask = torch.ones_like(ids)
    mask[1, :3] = 0
    padded = generate(model, ids, attention_mask=mask)
    again = generate(model, ids, attention_mask=mask, cache_implementation="static", disable_compile=True)
    same(again, padded, "static cache, left padding")


@torch.no_grad()
def chunked_prefill(model) -> None:
    ids = words()
    mask = torch.ones_like(ids)
    mask[1, :3] = 0
    want, got = (
        generate(model, ids, attention_mask=mask),
        generate(model, ids, attention_mask=mask, prefill_chunk_size=4),
    )
    same(got, want, "chunked prefill")


@torch.no_grad()
def prompt_lookup(model) -> None:
    ids, options = words(1, 9).repeat(1, 2), {"eos_token_id": EOS}  # transformers 5.12 wants one
    looked_up = generate(model, ids, prompt_lookup_num_tokens=3, **options)
    assert torch.equal(looked_up.sequences, generate(model, ids, **options).sequences), "prompt lookup"


@torch.no_grad()
def several_turns(model) -> None:
    """A cache kept by the user goes on where it stopped."""
    ids, more = words(2, 7), words(2, 4, seed=9)
    cache = DynamicCache()
    first = generate(model, ids, past_key_values=cache)
    second_prompt = torch.cat([first.sequences, more], dim=1)
    real = {"attention_mask": torch.ones_like(second_prompt)}  # else a padding token that was generated would be masked
    cached = generate(model, second_prompt, **real, past_key_values=cache)
    same(cached, generate(model, second_prompt, **real), "second turn")


@torch.no_grad()
def positions_to_keep(model) -> None:
    """logits_to_keep in all its forms = the same rows of all logits."""
    ids = words()
    inputs = {"input_ids": ids}
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = ids
    every = model(**inputs, use_cache=False).logits
    chosen, mask = torch.tensor([[1, 4], [0, 8]]), ids % 2 == 0
    for keep, want in [
        (3, every[:, -3:]),
        (torch.tensor([0, 5]), every[:, [0, 5]]),
        (chosen, every.take_along_dim(chosen[..., None], dim=1)),
        (mask, every[mask]),
    ]:
        close(model(**inputs, use_cache=False, logits_to_keep=keep).logits, want, "logits_to_keep")


@torch.no_grad()
def embeddings(model) -> None:
    """Embeddings instead of ids: nothing to read in them, and the words generated after them are read as usual."""
    ids = words()
    embeds = model.get_input_embeddings()(ids)
    cached = model.generate(inputs_embeds=embeds, max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False)
    uncached = model.generate(
        inputs_embeds=embeds, max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False, use_cache=False
    )
    assert torch.equal(cached, uncached)


@torch.no_grad()
def foreign_cache(model) -> None:
    """A cache filled by the bare backbone is refused, never used."""
    ids = words()
    if model.config.is_encoder_decoder:
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        encoded = model.get_encoder()(input_ids=ids)
        model.get_decoder()(input_ids=ids, encoder_hidden_states=encoded[0], past_key_values=cache, use_cache=True)
        inputs = {"encoder_outputs": encoded, "decoder_input_ids": ids[:, :1]}
    else:
        cache = DynamicCache()
        model.base_model(input_ids=ids, past_key_values=cache, use_cache=True)
        inputs = {"input_ids": ids[:, :1]}
    with pytest.raises(ValueError, match="holds 9 positions, of which the head has seen 0"):
        model(**inputs, past_key_values=cache)


MODES = {
    mode.__name__: mode
    for mode in (
        greedy,
        beams,
        sampling,
        beam_sampling,
        padding,
        batch,
        static_cache,
        chunked_prefill,
        prompt_lookup,
        several_turns,
        positions_to_keep,
        embeddings,
        foreign_cache,
    )
}
DECODER_ONLY = {"several_turns", "embeddings", "chunked_prefill"}
