"""explain says what the model predicts, and why; output_partitions says who wrote which logit."""

import json

import pytest
import torch
from cases import shrunk
from models import SEQ2SEQ, VOCABULARY, shaken, tiny, words
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

import unbottle
from unbottle.hf.explain import Explanation, NextWord, Occurrence
from unbottle.method import PAPER_METHODS, Method

TEXT, SOURCE = "the king and the woman said that the", "while the man slept the queen sat on the throne"
WORDS = ["<pad>", "</s>", "<s>", *dict.fromkeys(TEXT.split() + SOURCE.split())]
OTHERS = ("none", "mos:2+cr:5+mi:2x2", "pg+cr:2", "ps+c", "mos:2+cp", "softmax+cepr:2,7", "copynet+mi")
NAMES = [*dict.fromkeys(map(shrunk, PAPER_METHODS)), *OTHERS]


def fits(name: str, method: str) -> bool:
    method = Method.parse(method)
    return method.wbwr is None if name in SEQ2SEQ else "e" not in method.letters


ROWS = [(name, method) for name in ("gpt2", "t5") for method in NAMES if fits(name, method)]


class Reader(PreTrainedTokenizerFast):
    """A tokenizer of sixteen words that refuses to decode what it does not have: logits are wider."""

    def decode(self, token_ids, *args, **kwargs):
        assert all(word < len(WORDS) for word in token_ids)
        return super().decode(token_ids, *args, **kwargs)


def tokenizer(template: str | None = None) -> Reader:
    """With the special tokens that `template` puts around a text ($A)."""
    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<pad>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if template:
        special = [(word, WORDS.index(word)) for word in ("<s>", "</s>") if word in template]
        made.post_processor = processors.TemplateProcessing(single=template, special_tokens=special)
    return Reader(tokenizer_object=made, pad_token="<pad>", eos_token="</s>", bos_token="<s>")


def build(name: str, method: str):
    return shaken(unbottle.attach(tiny(name), method))


def explain(model, **options) -> Explanation:
    options = {"source": SOURCE} | options if model.config.is_encoder_decoder else options
    return unbottle.explain(model, tokenizer(), options.pop("text", TEXT), **options)


def output(model, **options):
    """What the model itself says about the same texts."""
    ids = tokenizer()(TEXT, return_tensors="pt").input_ids
    if not model.config.is_encoder_decoder:
        return model(input_ids=ids, use_cache=False, **options)
    decoder = torch.cat([torch.full((1, 1), model.config.decoder_start_token_id), ids], dim=1)
    source = tokenizer()(SOURCE, return_tensors="pt").input_ids
    return model(input_ids=source, decoder_input_ids=decoder, use_cache=False, **options)


@pytest.mark.parametrize(("name", "method"), ROWS)
@torch.no_grad()
def test_it_is_what_the_model_predicts(name: str, method: str) -> None:
    model = build(name, method)
    found = explain(model, top=VOCABULARY)
    said = output(model, output_partitions=True)
    probability = said.logits[0, -1].softmax(-1)
    assert sorted(word.id for word in found.words) == list(range(VOCABULARY))
    assert sum(found.masses.values()) == pytest.approx(1, abs=1e-5)
    assert [word.probability for word in found.words] == sorted((w.probability for w in found.words), reverse=True)
    for word in found.words:
        assert word.probability == pytest.approx(probability[word.id].item(), abs=1e-6)
        assert word.partition == word.writers[-1] == said.partition_names[said.partitions[0, -1, word.id]]
        assert word.writers[0] == "V"
        assert list(word.writers) == [writer for writer in said.partition_names if writer in word.writers]
        assert word.partition != "V" or word.logit == pytest.approx(word.plain_logit, abs=1e-4)
        assert word.text == (WORDS[word.id] if word.id < len(WORDS) else f"[{word.id}]")
    if model.head.gate is None and model.head.prior is None:
        for partition, mass in found.masses.items():
            wrote = [word.probability for word in found.words if word.partition == partition]
            assert mass == pytest.approx(sum(wrote), abs=1e-5)


@pytest.mark.parametrize("method", ["none", "softmax+cpr:3,6", "mos+c", "pg", "copynet"])
@torch.no_grad()
def test_the_plain_logit(method: str) -> None:
    """f_V . w_x, from the model's own parts."""
    model = build("gpt2", method)
    h = model.transformer(tokenizer()(TEXT, return_tensors="pt").input_ids).last_hidden_state[0, -1]
    want = model.lm_head.weight @ (h if method == "none" else model.head.L["V"](h))
    for word in explain(model, top=VOCABULARY).words:
        assert word.plain_logit == pytest.approx(want[word.id].item(), abs=1e-4)


@pytest.mark.parametrize(("name", "method"), ROWS)
@torch.no_grad()
def test_where_words_stand(name: str, method: str) -> None:
    model = build(name, method)
    found = explain(model, top=VOCABULARY)
    context = ["<pad>", *TEXT.split()] if name in SEQ2SEQ else TEXT.split()
    assert found.context == tuple(context)
    assert found.source == (tuple(SOURCE.split()) if name in SEQ2SEQ else ())
    kind = Method.parse(method)
    copies, side = kind.base in ("pg", "ps", "copynet"), "source" if name in SEQ2SEQ else "context"
    for word in found.words:
        places = {text: [o.position for o in word.occurrences if o.text == text] for text in ("context", "source")}
        start = name in SEQ2SEQ  # a decoder start token that is padding is no word
        assert places["context"] == [
            i for i, token in enumerate(context) if token == word.text and not (start and i == 0)
        ]
        assert places["source"] == [i for i, token in enumerate(found.source) if token == word.text]
        for occurrence in word.occurrences:
            assert (occurrence.copied is not None) == (copies and occurrence.text == side)
            scored = "p" in kind.letters or (kind.base == "copynet" and occurrence.text == side)
            assert (occurrence.score is not None) == scored
        assert (word.copied is not None) == copies
        if copies:
            parts = sum(o.copied for o in word.occurrences if o.copied is not None)
            assert parts == pytest.approx(word.copied, abs=1e-6)
            assert word.copied <= word.probability + 1e-6
    if copies:
        assert found.masses["COPY"] == pytest.approx(sum(word.copied for word in found.words), abs=1e-6)
        assert found.masses["COPY"] > 0.01


@torch.no_grad()
def test_what_p_adds_is_the_mean_of_its_scores() -> None:
    for name, method in [("gpt2", "softmax+p"), ("t5", "softmax+p")]:
        for word in explain(build(name, method), top=VOCABULARY).words:
            added = 0.0
            for text in ("context", "source"):
                scores = [o.score for o in word.occurrences if o.text == text]
                added += sum(scores) / max(len(scores), 1)
            assert word.logit == pytest.approx(word.plain_logit + added, abs=1e-4)


def test_it_is_plain_data() -> None:
    found = explain(build("t5", "softmax+cepr:3+mi"), top=3)
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert data["method"] == "softmax+cepr:3+mi"
    assert [word["id"] for word in data["words"]] == [word.id for word in found.words]
    assert data["words"][0]["occurrences"] == [vars(occurrence) for occurrence in found.words[0].occurrences]
    assert data["masses"] == found.masses


def test_the_table() -> None:
    places = tuple(Occurrence(text="context", position=place, score=place / 8) for place in range(6))
    far = (Occurrence(text="source", position=12),)
    first = NextWord(
        id=7, text=" said", probability=0.75, partition="PD", writers=("V", "C", "PD"), logit=12.5, plain_logit=-1.25,
        occurrences=places + far,
    )  # fmt: skip
    second = NextWord(id=31, text="[31]", probability=0.25, partition="V", writers=("V",), logit=3.0, plain_logit=3.0)
    masses = {"V": 0.25, "PD": 0.75}
    found = Explanation(
        method="softmax+cp", text="she", context=("she",), source=(), words=(first, second), masses=masses
    )
    assert str(found).splitlines() == [
        "softmax+cp: next word after 'she'",
        "word     id  probability  set by  writers   logit   plain  stands at",
        "' said'   7       0.7500  PD      V C PD   12.500  -1.250  "
        "context 0 (0), 1 (0.125), 2 (0.25), 3 (0.375), and 2 more; source 12",
        "'[31]'   31       0.2500  V       V         3.000   3.000",
        "all words: V 0.2500  PD 0.7500",
    ]


@pytest.mark.parametrize("method", ["softmax+cepr:3", "ps", "copynet"])
def test_knobs_count(method: str) -> None:
    model = build("t5", method)
    free = explain(model, top=VOCABULARY)
    with unbottle.knobs(model, copy_bias=2.0, source_only=True):
        bound = explain(model, top=VOCABULARY)
    assert {word.text for word in bound.words} == set(SOURCE.split())
    assert sum(bound.masses.values()) == pytest.approx(1, abs=1e-5)
    assert sum(word.probability for word in bound.words) == pytest.approx(1, abs=1e-5)
    json.dumps(bound.to_dict(), allow_nan=False)
    if method != "softmax+cepr:3":
        assert bound.masses["COPY"] > free.masses["COPY"]


def test_the_model_stays_as_it_was() -> None:
    model = build("gpt2", "softmax+cpr:3,6+mi").train()
    assert explain(model) == explain(model)  # no dropout
    assert model.training
    assert model.head.watch is None
    shown: list[object] = []
    model.head.watch = watch = lambda *prediction: shown.append(prediction)
    explain(model)
    assert model.head.watch is watch
    assert len(shown) == 1
    model.head.watch = None
    assert str(explain(model.eval())) == str(explain(model))
    assert not model.training


@pytest.mark.parametrize(
    ("template", "text", "context"),
    [
        (None, "the king", ["<s>", "the", "king"]),
        (None, "", ["<s>"]),
        ("$A </s>", "the king", ["<s>", "the", "king"]),
        ("$A </s>", "", ["<s>"]),
        ("<s> $A </s>", "the king", ["</s>", "<s>", "the", "king"]),
        ("<s> $A </s>", "", ["</s>", "<s>"]),
    ],
)
def test_the_decoder_reads_the_text_as_in_training(template: str | None, text: str, context: list[str]) -> None:
    model = build("bart", "softmax+cep")
    model.config.decoder_start_token_id = WORDS.index(context[0])
    found = unbottle.explain(model, tokenizer(template), text, source=SOURCE)
    assert list(found.context) == context
    assert found.source[-1] == ("</s>" if template else "throne")


# ---- refusals


@pytest.mark.parametrize("top", [0, VOCABULARY + 1])
def test_too_many_words(top: int) -> None:
    with pytest.raises(ValueError, match=f"top={top}: expected 1 to {VOCABULARY}, the words of the vocabulary"):
        explain(build("gpt2", "softmax"), top=top)


def test_texts_that_are_missing() -> None:
    decoder, encoder = build("gpt2", "softmax+c"), build("t5", "softmax+e")
    with pytest.raises(ValueError, match="text '' has no token, and GPT2LMHeadModel needs one to go on from"):
        explain(decoder, text="")
    with pytest.raises(ValueError, match=r"source='a man': GPT2LMHeadModel has no encoder\. Put everything into text"):
        explain(decoder, source="a man")
    for source in (None, ""):
        with pytest.raises(
            ValueError, match=f"source={source!r} has no token, and T5ForConditionalGeneration reads an"
        ):
            explain(encoder, source=source)


def test_no_head() -> None:
    with pytest.raises(ValueError, match=r"GPT2LMHeadModel has no head\. Give it one with unbottle\.attach first"):
        explain(tiny("gpt2"))


# ---- output_partitions


@pytest.mark.parametrize("name", ["gpt2", "t5"])
@torch.no_grad()
def test_partitions_are_given_when_asked_for(name: str) -> None:
    model, ids = build(name, "softmax+c"), words()
    inputs = {"input_ids": ids, "decoder_input_ids": ids} if name in SEQ2SEQ else {"input_ids": ids}
    assert "partitions" not in model(**inputs)
    found = model(**inputs, output_partitions=True)
    assert found.partition_names == ("V", "C")
    assert found.partitions.dtype == torch.int8
    assert found.partitions.shape == found.logits.shape
    for b, row in enumerate(ids.tolist()):
        for t in range(len(row)):
            assert set(found.partitions[b, t].nonzero()[:, 0].tolist()) == set(row[: t + 1])


@torch.no_grad()
def test_partitions_of_some_positions() -> None:
    model, ids = build("gpt2", "softmax+cpr:3,6"), words()
    every = model(ids, output_partitions=True).partitions
    chosen, mask = torch.tensor([[1, 4], [0, 8]]), ids % 2 == 0
    for keep, want in [
        (1, every[:, -1:]),
        (torch.tensor([0, 5]), every[:, [0, 5]]),
        (chosen, every.take_along_dim(chosen[..., None], dim=1)),
        (mask, every[mask]),
    ]:
        assert torch.equal(model(ids, output_partitions=True, logits_to_keep=keep).partitions, want)
