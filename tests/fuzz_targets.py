"""What is fuzzed: any input gets a right answer, or a ValueError or OSError of one sentence. Nothing else, and no hang.

Each target is what hypothesis draws, and what is done with it. `tests/test_fuzz.py` takes a short fixed slice of them,
`scripts/fuzz.py` goes on for as long as it is told.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import json
import resource
import shutil
import signal
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import torch
from byte_pairs import byte_pairs
from cases import SIZE, VOCABULARY
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from strategies import methods
from transformers import GPT2Config, GPT2LMHeadModel, T5Config, T5ForConditionalGeneration

import unbottle
from unbottle.cli.models import random_model
from unbottle.cli.train_options import read_config_file, training_options
from unbottle.data import PairSource, TextSource, read_pairs, read_texts
from unbottle.data.sources import read_rows
from unbottle.head import Embedding, Head, HeadConfig, Source, States
from unbottle.hf.configuration import stored_head
from unbottle.hf.model_card import FILE as CARD
from unbottle.hf.model_card import licence_of
from unbottle.method import Method
from unbottle.train.checkpoints import read_state, write_state
from unbottle.train.presets import PRESETS

SECONDS = 60  # of work for one example; more is a hang
WAITING = 30  # times as long it may take by the clock: other processes want to work, too
LONGEST = 3000  # characters of a refusal


@dataclass(frozen=True)
class Target:
    draws: st.SearchStrategy[Any]
    check: Callable[[Any], None]


class HangError(AssertionError):
    """No answer at all."""


@contextlib.contextmanager
def in_time(seconds: float = SECONDS, waiting: float = WAITING) -> Iterator[None]:
    """Ends what works for too long, or waits for something that never comes."""

    def ring(*args: Any) -> None:
        raise HangError(f"no answer in {seconds:g} seconds of work, or {seconds * waiting:g} by the clock")

    rings = {signal.SIGPROF: signal.ITIMER_PROF, signal.SIGALRM: signal.ITIMER_REAL}
    before = {name: signal.signal(name, ring) for name in rings}
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, seconds * waiting)
    try:
        yield
    finally:
        for name, timer in rings.items():
            signal.setitimer(timer, 0)
            signal.signal(name, before[name])


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    """A refusal is fine, if it is one line that says something; warnings are, too."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (ValueError, OSError) as error:
        check_sentence(str(error))


def check_sentence(said: str) -> None:
    assert said.strip(), "it says nothing"
    assert "\n" not in said.strip(), said
    assert len(said) < LONGEST, said


# -- the method language

WORDS = [
    "softmax",
    "s",
    "mos",
    "none",
    "pg",
    "ps",
    "copynet",
    "c",
    "e",
    "p",
    "r",
    "mi",
    "wbwr",
    "+",
    ":",
    ",",
    "x",
    " ",
]
NUMBERS = ["0", "100000", "1", "2", "20", "100", "-1", "01", "9" * 9, "9" * 40, "1.5", "²", "\u0663", "inf"]
METHODS = st.one_of(
    st.text(max_size=30),
    st.lists(st.sampled_from([*WORDS, *NUMBERS]), max_size=12).map("".join),
    methods().map(lambda m: m[0]),
)


def method(text: str) -> None:
    with refusals():
        made = Method.parse(text)
        assert Method.parse(str(made)) == made
        assert Method.parse(made.title) == made


# -- configs

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 64), st.integers(), st.floats(), st.text(max_size=8), METHODS
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)),
    max_leaves=8,
)
HEAD_KEYS = st.sampled_from(
    ["method", "hidden_size", "vocabulary", "encoder_decoder", "source_size", "convention", "x"]
)
HEADS = st.one_of(
    JSON,
    st.dictionaries(HEAD_KEYS, st.one_of(SCALARS, JSON)),
    st.fixed_dictionaries({"method": METHODS, "hidden_size": SCALARS, "vocabulary": SCALARS}),
)


def head_config(data: Any) -> None:
    with refusals():
        made = stored_head(data, "config.json")
        assert stored_head(json.loads(json.dumps(made.to_dict())), "config.json") == made


NESTED = st.sampled_from([1, 40, 2000]).map(lambda depth: "[" * depth)
USUAL: dict[str, st.SearchStrategy[Any]] = {
    "lr": st.floats(1e-6, 1), "batch": st.integers(1, 9), "epochs": st.floats(0.1, 9), "seed": st.integers(0, 9),
    "train": st.sampled_from(["all", "head", "lora"]), "preset": st.sampled_from(["paper", "head", "scratch"]),
    "output": st.just("runs/x"), "shuffle": st.booleans(), "max_steps": st.integers(1, 9), "report_to": st.just("[]"),
}  # fmt: skip
ODD = st.one_of(
    JSON,
    st.sampled_from(
        ["1e999", "!!python/name:os.system", "&a [*a]", "&b [1, 2]\nbatch: *b", "2020-13-45", ".nan", "0x", "1_0"]
    ),
)
YAML = st.one_of(
    st.binary(max_size=60),
    st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")),
    NESTED.map(str.encode),
    st.fixed_dictionaries({}, optional={name: st.one_of(usual, usual, ODD) for name, usual in USUAL.items()}).map(
        lambda data: "\n".join(f"{name}: {value}" for name, value in data.items()).encode("utf-8", "surrogatepass")
    ),
)


def settings(content: bytes) -> None:
    with folder() as here, refusals():
        (here / "settings.yaml").write_bytes(content)
        own = dict.fromkeys(("model", "method", "form", "data"))
        options = training_options("lm", own, None, PRESETS, here / "settings.yaml", {}, [])
        json.dumps(options.to_dict(), allow_nan=False)


# -- YAML with anchors and aliases: in a file of settings, and in the card of a model that somebody else wrote

ANCHORS = st.sampled_from("abc")
ALIASED = st.recursive(
    st.one_of(st.sampled_from(["1", "x", "'*a'", "a*b", "~", "<<"]), ANCHORS.map("*{}".format)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=9).map(lambda values: f"[{', '.join(values)}]"),
        st.dictionaries(st.sampled_from(["k", "<<"]), inner).map(
            lambda values: "{" + ", ".join(f"{name}: {value}" for name, value in values.items()) + "}"
        ),
        st.tuples(ANCHORS, inner).map(lambda pair: f"&{pair[0]} {pair[1]}"),
    ),
    max_leaves=20,
)
NAMES = ["lr", "batch", "report_to", "license", "license_name", "<<"]
LETTERS = "abcdefgh"


def bomb(name: str, depth: int) -> str:
    """9 ** depth values."""
    lines = [
        f"- &{letter} [{', '.join([inner] * 9)}]"
        for letter, inner in zip(LETTERS, ["x", *map("*{}".format, LETTERS[:-1])], strict=True)
    ]
    return "\n".join(["x:", *lines[:depth], f"{name}: *{LETTERS[depth - 1]}"])


ALIASES = st.one_of(
    st.lists(st.tuples(st.sampled_from(NAMES), ALIASED).map(": ".join), min_size=1, max_size=6).map("\n".join),
    st.builds(bomb, st.sampled_from(NAMES), st.integers(1, len(LETTERS))),
)


def aliases(text: str) -> None:
    """What is read is no longer than what was written."""
    with folder() as here:
        (here / "settings.yaml").write_text(text, encoding="utf-8")
        with refusals():
            assert _values(read_config_file(here / "settings.yaml")) <= len(text)
        (here / CARD).write_text(f"---\n{text}\n---\n", encoding="utf-8")
        assert sum(map(len, licence_of(str(here), online=False).values())) <= len(text)


def _values(data: Any) -> int:
    inner = [*data, *data.values()] if isinstance(data, dict) else data if isinstance(data, list) else []
    return 1 + sum(map(_values, inner))


SMALL = st.one_of(st.integers(-2, 40), st.none(), st.booleans(), st.floats(-2, 40), st.text(max_size=4), st.just([]))
MODEL_KEYS = st.sampled_from(
    ["n_embd", "n_layer", "n_head", "n_positions", "vocab_size", "d_model", "num_layers", "d_ff", "dtype", "n_inner"]
)
MODELS = st.one_of(
    st.text(max_size=20),
    NESTED.map(lambda text: "{" + '"a":' + text),
    st.builds(
        lambda kind, values: json.dumps({"model_type": kind, "n_embd": 8, "n_layer": 1, "n_head": 2} | values),
        st.sampled_from(["gpt2", "gpt2", "t5", "bert", "unbottle", "x", ""]),
        st.dictionaries(MODEL_KEYS, SMALL, max_size=2),
    ),
)


def model_config(text: str) -> None:
    with refusals():
        model, tokenizer = random_model(text, str(tokenizer_folder()))
        assert model.get_input_embeddings().weight.shape[0] >= len(tokenizer)


@functools.cache
def tokenizer_folder() -> Path:
    made = Path(tempfile.mkdtemp())
    byte_pairs().save_pretrained(made)
    return made


# -- data

TABLE = st.lists(
    st.dictionaries(st.sampled_from(["text", "document", "summary", "id", "x"]), st.one_of(st.text(max_size=9), JSON)),
    max_size=4,
)
WHOLE = st.lists(
    st.fixed_dictionaries({name: st.text(min_size=1, max_size=9) for name in ("text", "document", "summary")}),
    min_size=1,
    max_size=4,
)
CONTENTS = st.one_of(
    WHOLE.map(lambda rows: "\n".join(map(json.dumps, rows)).encode()),
    WHOLE.map(lambda rows: json.dumps(rows).encode()),
    st.binary(max_size=80),
    st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")),
    TABLE.map(lambda rows: "\n".join(map(json.dumps, rows)).encode()),
    TABLE.map(lambda rows: json.dumps(rows).encode()),
    st.lists(st.lists(st.text(max_size=6), max_size=3).map(",".join), max_size=4).map(
        lambda lines: "\n".join(["text,document,summary", *lines]).encode("utf-8", "surrogatepass")
    ),
)
ENDINGS = [".txt", ".jsonl", ".jsonl", ".json", ".csv", ".parquet", ".md", ".zip", ""]
CUTS = st.sampled_from([None, 1, 8, -1, -5])  # of a .gz file, so many bytes


@st.composite
def data_files(draw: Any) -> tuple[str, bytes]:
    name, content = "data" + draw(st.sampled_from(ENDINGS)), draw(CONTENTS)
    if draw(st.booleans()):
        packed = gzip.compress(content)[: draw(CUTS)]
        return f"{name}.gz", packed if draw(st.booleans()) else content
    return name, content


def data(file: tuple[str, bytes]) -> None:
    name, content = file
    with folder() as here, own_cache(here):
        path = here / name
        path.write_bytes(content)
        with refusals():
            assert all(isinstance(row["text"], str) for row in read_texts(TextSource(path=str(path))))
        with refusals():
            rows = read_texts(TextSource(path=str(path), streaming=True))
            assert all(isinstance(row["text"], str) for row in rows)
        with refusals():
            for row in read_pairs(PairSource(path=str(path))):
                assert row["document"].strip()
                assert row["summary"].strip()
        with refusals():
            assert all(isinstance(row, dict) for row in read_rows(path))


@contextlib.contextmanager
def own_cache(folder: Path) -> Iterator[None]:
    """What datasets keeps is gone with the folder."""
    before = datasets.config.HF_DATASETS_CACHE
    datasets.config.HF_DATASETS_CACHE = folder / "cache"
    try:
        yield
    finally:
        datasets.config.HF_DATASETS_CACHE = before


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp())
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


# -- checkpoints

PARTS = st.sampled_from(["tensor", "array", "tuple", "items", "dtype"])
STATES = st.recursive(
    st.one_of(SCALARS, st.just("0")),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(PARTS, inner, max_size=2)),
    max_leaves=6,
)


def checkpoint(structure: Any) -> None:
    with folder() as here:
        write_state(here, "state", {"a": torch.ones(2)})
        (here / "state.json").write_text(json.dumps(structure), encoding="utf-8")
        with refusals():
            read_state(here, "state")


# -- saved models

ABSURD = st.sampled_from([0, -1, 1, 7, 10**4, 10**6, 10**9, 10**12, 10**30, 1.5, None, "8", [8], True])
SAVED = st.tuples(
    st.dictionaries(
        st.sampled_from(["n_embd", "n_layer", "n_head", "n_positions", "vocab_size", "n_inner"]), ABSURD, max_size=2
    ).filter(lambda changes: not _slow(changes.get("n_layer"))),
    st.dictionaries(
        st.sampled_from(["method", "hidden_size", "vocabulary", "source_size", "form"]),
        st.one_of(ABSURD, METHODS, st.sampled_from(["softmax+c+mi:3x100000", "mos:9999+c", "softmax+c+mi:200x200"])),
        max_size=2,
    ),
    st.sampled_from([None, None, float("nan"), float("inf"), -float("inf"), 1e30]),
)
MEMORY = 300_000  # KB that a model of a few thousand weights may take


def _slow(layers: Any) -> bool:
    """transformers makes modules for as many layers as a config says, without memory but not without time."""
    return isinstance(layers, int) and layers > 10**3


def saved_model(given: tuple[dict[str, Any], dict[str, Any], float | None]) -> None:
    """A folder whose config or weights were changed: refused, or the model is what was saved."""
    changes, head_changes, value = given
    with folder() as here:
        shutil.copytree(saved_folder(), here / "model")
        path = here / "model" / "config.json"
        config = json.loads(path.read_text(encoding="utf-8"))
        config.update(changes)
        config["unbottle"].update(head_changes)
        path.write_text(json.dumps(config), encoding="utf-8")
        if value is not None:
            weights = load_file(here / "model" / "model.safetensors")
            weights["head.L.C.weight"].view(-1)[1] = value
            save_file(weights, here / "model" / "model.safetensors", metadata={"format": "pt"})
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with refusals():
            model = unbottle.load(here / "model")
            assert all(weight.isfinite().all() for weight in model.head.state_dict().values())
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEMORY, given


@functools.cache
def saved_folder() -> Path:
    made = Path(tempfile.mkdtemp())
    explained_model("gpt2").save_pretrained(made)
    return made


# -- explain

TEXTS = st.one_of(st.text(max_size=20), st.just("the king " * 30), st.sampled_from(["", "\ud800", "\0", "<eos>", " "]))
EXPLAINED = st.tuples(
    st.sampled_from(["gpt2", "t5"]),
    TEXTS,
    st.one_of(st.integers(), st.sampled_from([1, 5, 300, 301])),
    st.none() | TEXTS,
)


@functools.cache
def explained_model(kind: str) -> Any:
    torch.manual_seed(0)
    if kind == "gpt2":
        config: Any = GPT2Config(
            vocab_size=305, n_embd=8, n_layer=1, n_head=2, n_positions=24, bos_token_id=0, eos_token_id=0
        )
        return unbottle.attach(GPT2LMHeadModel(config).eval(), "softmax+cpr:5,20+mi:1x2")
    config = T5Config(vocab_size=305, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2, decoder_start_token_id=0)
    return unbottle.attach(T5ForConditionalGeneration(config).eval(), "softmax+cepr:5")


def explained(given: tuple[str, str, int, str | None]) -> None:
    kind, text, top, source = given
    with refusals():
        found = unbottle.explain(explained_model(kind), byte_pairs(), text, top=top, source=source)
        assert len(found.words) == top
        assert abs(sum(found.masses.values()) - 1) < 1e-3
        assert str(found)


# -- the head

DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.bool,
    torch.complex64,
]
SIZES = st.sampled_from([1, 2, 3, 5, 2, 1, 3, 0])
SPECIAL = st.sampled_from([0.0, float("nan"), float("inf"), -float("inf"), 1e30])
WRONG_IDS = st.sampled_from([0, 0, 0, -1, -100, VOCABULARY, 2**40])


@st.composite
def hostile(draw: Any) -> dict[str, Any]:
    """Mostly a batch as it should be, with one or two things that are not."""
    text, encoder_decoder = draw(methods())
    rarely = st.integers(0, 24).map(lambda number: number == 24)

    def size(usual: int) -> int:
        return draw(SIZES) if draw(rarely) else usual

    batch, positions, tokens = draw(SIZES), draw(SIZES), draw(SIZES)
    return {
        "method": text,
        "encoder_decoder": encoder_decoder,
        "layers": (size(batch), size(positions), size(0), size(SIZE)),  # 0: as many layers as the method reads
        "ids": (size(batch), size(positions)),
        "source": (size(batch), size(tokens), size(SIZE)) if draw(st.booleans()) else None,
        "labels": (size(batch), size(positions)),
        "mask": draw(st.sampled_from([None, True, "wrong shape", "wrong kind", False])),
        "dtype": draw(st.sampled_from(DTYPES)) if draw(rarely) else torch.float32,
        "id_dtype": draw(st.sampled_from(DTYPES)) if draw(rarely) else torch.int64,
        "wrong_id": draw(WRONG_IDS) if draw(rarely) else 0,
        "value": draw(SPECIAL) if draw(rarely) else 0.0,
        "strict": draw(st.booleans()),
        "strided": draw(st.booleans()),
        "path": draw(st.sampled_from(["auto", "dense"])),
    }


def hostile_head(given: dict[str, Any]) -> None:
    torch.manual_seed(0)
    kind = given["encoder_decoder"]
    config = HeadConfig(
        method=Method.parse(given["method"]), hidden_size=SIZE, vocabulary=VOCABULARY, encoder_decoder=kind
    )
    head = Head(config)
    head.strict, head.path = given["strict"], given["path"]
    batch, positions, depth, width = given["layers"]
    layers = numbers((batch, positions, depth or config.block[0], width), given)
    ids, labels = words(given["ids"], given), words(given["labels"], given)
    if layers.numel() and layers.is_floating_point():
        layers.view(-1)[-1] = given["value"]
    layers = strided(layers) if given["strided"] else layers
    mask = given["mask"]
    if isinstance(mask, bool):
        mask = torch.full(given["ids"], mask)
    elif mask is not None:
        mask = torch.ones(given["ids"]) if mask == "wrong kind" else torch.ones(3, 7, dtype=torch.bool)
    states = unchecked(States, layers=layers, ids=ids, mask=mask, readable=None, documents=None)
    source = None
    if given["source"] is not None:
        source = unchecked(
            Source, states=numbers(given["source"], given), ids=words(given["source"][:2], given), mask=None
        )
    embedding = Embedding(weight=torch.randn(VOCABULARY, SIZE))

    def second_pass(candidates: Any, *told: Any) -> torch.Tensor:
        return torch.zeros(*candidates.ids.shape, config.block[0], SIZE)

    with refusals():
        log_probs = head(states, embedding, source=source, second_pass=second_pass).distribution.log_probs()
        assert log_probs.shape == (*given["ids"], VOCABULARY)
        if given["value"] == 0.0:
            assert torch.allclose(log_probs.exp().sum(-1), torch.ones(given["ids"]), atol=1e-2)
    with refusals():
        options = {"source": source, "second_pass": second_pass, "labels": labels, "num_items": 1.0, "output": "loss"}
        loss, losses, *_ = head(states, embedding, **options)
        assert losses.shape == given["ids"]
        loss.backward()


def numbers(shape: tuple[int, ...], given: dict[str, Any]) -> torch.Tensor:
    return torch.randn(shape).to(given["dtype"])


def words(shape: tuple[int, ...], given: dict[str, Any]) -> torch.Tensor:
    made = torch.randint(0, VOCABULARY, shape).to(given["id_dtype"])
    if made.numel() and given["wrong_id"] and made.dtype == torch.int64:
        made.view(-1)[0] = given["wrong_id"]
    return made


def strided(tensor: torch.Tensor) -> torch.Tensor:
    """The same values, every other one of a larger tensor."""
    return torch.stack([tensor, tensor], -1)[..., 0]


def unchecked(kind: type, **values: Any) -> Any:
    """Without the checks of shapes that test runs add: those are not there for users."""
    made = object.__new__(kind)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


TARGETS = {
    "method": Target(METHODS, method),
    "head config": Target(HEADS, head_config),
    "settings": Target(YAML, settings),
    "aliases": Target(ALIASES, aliases),
    "model config": Target(MODELS, model_config),
    "data": Target(data_files(), data),
    "checkpoint": Target(STATES, checkpoint),
    "saved model": Target(SAVED, saved_model),
    "explain": Target(EXPLAINED, explained),
    "head": Target(hostile(), hostile_head),
}
