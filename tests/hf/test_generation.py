"""Methods x architectures x ways to decode."""

import pytest
import torch
import transformers
from cases import shrunk
from models import CAUSAL, SEQ2SEQ, shaken, tiny, words
from modes import DECODER_ONLY, MODES, generate
from packaging.version import Version

import unbottle
from unbottle.method import PAPER_METHODS, Method

METHODS = [name for name in dict.fromkeys(map(shrunk, PAPER_METHODS)) if not Method.parse(name).wbwr]
DEFAULT = {False: "softmax+cpr:3,6+mi", True: "softmax+cepr:3+mi"}
SLIDING, OLD = ("gemma2", "mistral"), Version(transformers.__version__) < Version("5.15")
EVERY_MODE = ("gpt2", "gemma2", "t5", "marian")
SUMMARIES = ("s", "copynet", "pg", "ps", "s+r:20", "s+e", "s+ce", "s+cer:20", "s+cepr:20", "s+cepr:20+mi")
SUMMARY_METHODS = {shrunk(name) for name in SUMMARIES}  # the paper's for T5 and BART


def fits(method: str, name: str, mode: str) -> bool:
    encoder_decoder = name in SEQ2SEQ
    if "e" in Method.parse(method).letters and not encoder_decoder:
        return False
    if mode == "prompt_lookup" and name in SLIDING and OLD:
        return False  # these versions cannot crop the cache of a sliding window, head or not
    if mode == "static_cache" and name == "led":
        return False  # LED's own logits are wrong with a static cache, head or not
    return not (encoder_decoder and mode in DECODER_ONLY)


def matrix() -> list:
    rows = []
    for name in (*CAUSAL, *SEQ2SEQ):
        for method in METHODS:
            for mode in MODES:
                if not fits(method, name, mode):
                    continue
                usual = method == DEFAULT[name in SEQ2SEQ]
                fast = (usual and (name in EVERY_MODE or mode in ("greedy", "padding"))) or (
                    name in ("gpt2", "bart") and mode in ("greedy", "beams")
                )
                fast |= method in SUMMARY_METHODS and name in ("t5", "bart") and mode in ("greedy", "beams", "padding")
                rows.append(pytest.param(method, name, mode, marks=[] if fast else [pytest.mark.full]))
    return rows


@pytest.mark.parametrize(("method", "name", "mode"), matrix())
def test_decoding(method: str, name: str, mode: str) -> None:
    MODES[mode](shaken(unbottle.attach(tiny(name), method)))


@pytest.mark.parametrize("method", ["softmax+cpr:3,6+mi", "ps+mi", "mos+mi"])
def test_assisted_decoding(method: str) -> None:
    """As the main model, as the assistant, and as both: always what greedy decoding gives."""
    ids = words(1)
    main, plain = shaken(unbottle.attach(tiny("llama"), method)), tiny("llama")
    other = shaken(unbottle.attach(tiny("llama"), method), seed=8)
    want = generate(main, ids).sequences
    assert torch.equal(generate(main, ids, assistant_model=plain).sequences, want)
    assert torch.equal(generate(main, ids, assistant_model=other).sequences, want)
    assert torch.equal(generate(plain, ids, assistant_model=main).sequences, generate(plain, ids).sequences)


@pytest.mark.parametrize(("name", "method"), [("bart", "s+cepr:20+mi:2x2"), ("bart", "ps"), ("t5", "s+cepr:20+mi")])
def test_assisted_decoding_of_encoder_decoders(name: str, method: str) -> None:
    """With an assistant that proposes nothing right, all is cropped again and again."""
    ids = words(1)
    main, plain = shaken(unbottle.attach(tiny(name), method)), tiny(name)
    assistant = tiny(name)
    with torch.no_grad():
        generator = torch.Generator().manual_seed(1)
        for parameter in assistant.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    want = generate(main, ids).sequences
    assert not torch.equal(generate(assistant, ids).sequences, want)
    for helper in (assistant, plain):
        assert torch.equal(generate(main, ids, assistant_model=helper).sequences, want)
    assert torch.equal(generate(plain, ids, assistant_model=main).sequences, generate(plain, ids).sequences)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
@pytest.mark.parametrize("method", ["softmax+c", "ps+mi"])
def test_a_prompt_of_embeddings_is_read_where_its_words_are_given(name: str, method: str) -> None:
    """By input_ids beside the embeddings, or by context_ids, which are those of the prompt only."""
    model, ids = shaken(unbottle.attach(tiny(name), method)), words()
    embeds = model.get_input_embeddings()(ids)
    options = {
        "max_new_tokens": 4,
        "num_beams": 2,
        "do_sample": False,
        "output_logits": True,
        "return_dict_in_generate": True,
    }
    want = model.generate(ids, **options)
    beside = model.generate(ids, inputs_embeds=embeds, **options)
    apart = model.generate(inputs_embeds=embeds, context_ids=ids, **options)
    assert torch.equal(beside.sequences, want.sequences)
    assert torch.equal(apart.sequences, want.sequences[:, ids.shape[1] :])
    for result in (beside, apart):
        torch.testing.assert_close(result.logits[0], want.logits[0], atol=1e-5, rtol=1e-4)


def test_embeddings_of_an_encoder_input_are_no_words_of_the_decoder() -> None:
    model = shaken(unbottle.attach(tiny("t5"), "softmax+cr:5"))
    options = {"max_new_tokens": 12, "do_sample": False}
    embeds = model.get_input_embeddings()(words())
    assert torch.equal(model.generate(inputs_embeds=embeds, **options), model.generate(words(), **options))
