"""What the benchmark measures: shapes of models with random weights, settings, the cases they stand for, and goals."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from unbottle.files import Json
from unbottle.method import Method

CAUSAL = ("softmax+c", "softmax+cpr:20,100", "softmax+cpr:20,100+mi", "mos+mi")
SEQ2SEQ = ("softmax+cepr:20",)
ENCODER_DECODERS = ("t5", "bart")
LONGEST = ("n_positions", "max_position_embeddings")  # what architectures call the option that limits the length


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The config of an architecture, and the default sizes and methods of its benchmark."""

    name: str
    model_type: str
    vocabulary: int
    config: dict[str, Any] = field(hash=False)  # what differs from the defaults of the architecture
    batch: int = 4
    length: int = 200
    source_length: int = 0
    methods: tuple[str, ...] = CAUSAL

    @property
    def encoder_decoder(self) -> bool:
        return self.model_type in ENCODER_DECODERS

    def options(self, length: int = 0) -> dict[str, object]:
        """The arguments of the config, with room for `length` positions."""
        room = {name: length for name in LONGEST if length > self.config.get(name, length)}
        return self.config | room | {"vocab_size": self.vocabulary}


def llama(*, layers: int, width: int, inner: int, heads: int, key_value_heads: int, positions: int) -> dict[str, Any]:
    """The config of an architecture that calls its options as Llama does."""
    return {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "intermediate_size": inner,
        "num_attention_heads": heads,
        "num_key_value_heads": key_value_heads,
        "max_position_embeddings": positions,
        "tie_word_embeddings": True,
    }


GPT2_MEDIUM = {"n_embd": 1024, "n_layer": 24, "n_head": 16}
T5_BASE = {"d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12}
BART_BASE = {
    f"{side}_{option}": value
    for side in ("encoder", "decoder")
    for option, value in (("layers", 6), ("attention_heads", 12), ("ffn_dim", 3072))
}
SUMMARIES: dict[str, Any] = {"batch": 8, "length": 64, "source_length": 512, "methods": SEQ2SEQ}
SHAPES = {
    name: Shape(
        name=name,
        model_type=model_type,
        vocabulary=vocabulary,
        config=config,
        **(SUMMARIES if model_type in ENCODER_DECODERS else {}),
    )
    for name, model_type, vocabulary, config in (
        ("gpt2", "gpt2", 50257, {"n_positions": 1024}),
        ("gpt2-medium", "gpt2", 50257, {"n_positions": 1024, **GPT2_MEDIUM}),
        ("t5-small", "t5", 32128, {"d_model": 512, "num_layers": 6, "decoder_start_token_id": 0}),
        ("t5-base", "t5", 32128, {**T5_BASE, "decoder_start_token_id": 0}),
        ("bart-base", "bart", 50265, {"d_model": 768, **BART_BASE, "max_position_embeddings": 1024}),
        ("bart-large", "bart", 50265, {"d_model": 1024, "max_position_embeddings": 1024}),
        (
            "smollm2-135m", "llama", 49152,
            llama(layers=30, width=576, inner=1536, heads=9, key_value_heads=3, positions=8192),
        ),
        (
            "vocab-152k", "qwen2", 151936,  # Qwen2.5-0.5B with a third of its layers: most of the work is the output
            llama(layers=8, width=896, inner=4864, heads=14, key_value_heads=2, positions=32768),
        ),
    )
}  # fmt: skip


AXES = {"T": "positions", "V": "vocabulary", "B": "batch", "k": "words of the largest reranker partition"}


@dataclass(frozen=True)
class Scale:
    """One size that grows while the others stay, written T=128,256,512."""

    axis: str
    values: tuple[int, ...]

    @staticmethod
    def parse(text: str) -> Scale:
        axis, _, numbers = text.partition("=")
        axis = {"batch": "B", "K": "k", "t": "T", "v": "V", "b": "B"}.get(axis.strip(), axis.strip())
        values = [number.strip() for number in numbers.split(",")]
        if axis not in AXES:
            raise ValueError(f"scale {text!r}: unknown axis {axis!r}. Known: {', '.join(AXES)}, as in T=128,256,512.")
        if not all(value.isdecimal() and int(value) > 1 for value in values):
            raise ValueError(f"scale {text!r}: write whole numbers above 1, as in T=128,256,512.")
        return Scale(axis, tuple(int(value) for value in values))

    def __str__(self) -> str:
        return f"{self.axis}={','.join(map(str, self.values))}"


def with_k(method: str, k: int) -> str | None:
    """The method with k words in its largest reranker partition, None if it has none. Smaller ones stay."""
    parsed = Method.parse(method)
    if not parsed.ks:
        return None
    return str(replace(parsed, ks=(*(smaller for smaller in parsed.ks[:-1] if smaller < k), k)))


PLAIN = "plain"  # the model as transformers made it, no head attached
MODEL = ("forward", "loss", "loss-no-logits", "train", "decode", "generate")
HEAD = ("head-forward", "head-loss", "head-loss-no-logits", "head-train")
MEASURES = (*MODEL, *HEAD)
AT_CONTEXT = ("decode", "generate")  # batch 1 unless another is asked for
NEW_TOKENS = 24  # of generate
PROMPT = 128  # the shortest context by default


@dataclass(frozen=True, kw_only=True)
class HeadVariant:
    """What differs inside a group of cases: the output layer, and how it is computed."""

    method: str = PLAIN
    path: str = "auto"

    @property
    def name(self) -> str:
        return self.method if self.path == "auto" else f"{self.method} ({self.path})"


@dataclass(frozen=True, kw_only=True)
class Point:
    """What is equal inside a group of cases: the measure and all sizes."""

    shape: Shape
    measure: str
    batch: int
    length: int
    source_length: int = 0
    context: int | None = None  # words before the step of decode, or of the prompt of generate
    axis: str | None = None  # the scale that this point lies on, and where
    value: int | None = None

    @property
    def positions(self) -> int:
        """The longest text of the decoder or encoder."""
        generated = NEW_TOKENS if self.measure == "generate" else 0
        return max((self.context or self.length) + generated, self.source_length)

    @property
    def title(self) -> str:
        if self.measure == "generate":
            return f"generate {'' if self.context is None else f'{self.context} + '}{NEW_TOKENS}"
        name = self.measure.replace("-no-logits", ", no logits")
        return name if self.context is None else f"{name} at {self.context}"

    @property
    def work(self) -> float:
        """An estimate of the cost of one run for the progress bar, in words read; training counts three times.

        A decoding step reads few words but all weights, so it counts for more.
        """
        steps = {"decode": 1, "generate": NEW_TOKENS}.get(self.measure)
        words = 40 * steps if steps else self.length + self.source_length / 2
        return self.batch * words * (3 if self.measure.endswith("train") else 1)


@dataclass(frozen=True, kw_only=True)
class Execution:
    """Where and in which precision everything runs."""

    device: str = "cpu"
    dtype: str = "float32"
    autocast: bool = False  # float32 weights, products in bfloat16
    compile: bool = False
    threads: int = 2

    @property
    def on_gpu(self) -> bool:
        return self.device != "cpu"

    def __str__(self) -> str:
        precision = "float32 weights, bfloat16 autocast" if self.autocast else self.dtype
        where = self.device if self.on_gpu else f"{self.threads} threads"
        return ", ".join([precision, *["compiled"] * self.compile, where])


@dataclass(frozen=True, kw_only=True)
class Case:
    """One variant at one point: all that a separate process needs to know."""

    point: Point
    variant: HeadVariant
    execution: Execution

    def to_dict(self) -> Json:
        return asdict(self)

    @staticmethod
    def of(data: Json) -> Case:
        point, shape = data["point"], data["point"]["shape"]
        shape["methods"] = tuple(shape["methods"])
        return Case(
            point=Point(**point | {"shape": Shape(**shape)}),
            variant=HeadVariant(**data["variant"]),
            execution=Execution(**data["execution"]),
        )


@dataclass(frozen=True, kw_only=True)
class CaseGroup:
    """Variants that take turns at one point. Ratios are relative to the first, normally the plain model."""

    point: Point
    variants: tuple[HeadVariant, ...]
    memory: bool = True  # measured too, unless the settings forbid it


PRESETS = ("goals", "paper")
DEVICES = ("cpu", "cuda")
DTYPES = ("float32", "bfloat16", "float16")
SHORTEST_CONTEXT = 8


@dataclass(frozen=True, kw_only=True)
class BenchSettings(Execution):
    """Settings of a run; None stands for the default of the shape. Unknown values raise ValueError."""

    preset: str | None = None
    shapes: tuple[str, ...] = ("gpt2", "t5-small")
    methods: tuple[str, ...] = ()
    measures: tuple[str, ...] = MODEL
    batch: int | None = None
    length: int | None = None
    source_length: int | None = None
    contexts: tuple[int, ...] = (PROMPT, 1024)
    repeats: int = 7
    against_dense: bool = False
    baseline: str = PLAIN
    memory: bool = True
    scales: tuple[Scale, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        measures = [part for name in self.measures for part in (HEAD if name == "head" else (name,))]
        object.__setattr__(self, "measures", tuple(dict.fromkeys(measures)))
        for name in self.shapes:
            check_known("shape", name, tuple(SHAPES))
        for name in self.measures:
            check_known("measure", name, MEASURES)
        check_known("device", self.device, DEVICES)
        check_known("dtype", self.dtype, DTYPES)
        if self.autocast and self.dtype != "float32":
            raise ValueError(f"autocast with {self.dtype} weights: autocast is for float32 weights.")
        for what in ("batch", "length", "source_length", "repeats", "threads"):
            if (value := getattr(self, what)) is not None and value < 1:
                raise ValueError(f"{what} {value}: give a number of at least 1.")
        grown = [value for scale in self.scales if scale.axis == "T" for value in scale.values]
        for context in (*self.contexts, *(grown if set(AT_CONTEXT) & {*self.measures} else ())):
            if context < SHORTEST_CONTEXT:
                raise ValueError(f"context {context}: give a number of at least {SHORTEST_CONTEXT}.")
        if self.source_length and not any(SHAPES[name].encoder_decoder for name in self.shapes):
            raise ValueError(f"source length {self.source_length}: {', '.join(self.shapes)} has no encoder.")
        if self.length == 1 and set(self.measures) - {*AT_CONTEXT}:
            raise ValueError("length 1: a text of one word has no next word to predict; give at least 2.")

    @property
    def execution(self) -> Execution:
        return Execution(**{part.name: getattr(self, part.name) for part in fields(Execution)})

    def to_dict(self) -> Json:
        return asdict(self)


def check_known(what: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{what} {value!r}: unknown. Known: {', '.join(allowed)}.")


def plan(settings: BenchSettings) -> list[CaseGroup]:
    """All groups of cases, shape by shape; MethodError if a shape cannot have a method."""
    groups = []
    for shape in (SHAPES[name] for name in settings.shapes):
        for scale in settings.scales:
            groups += scaled(shape, scale, settings)
        for measure in () if settings.scales else settings.measures:
            for point in at(shape, measure, settings):
                chosen = variants(point, settings.methods or shape.methods, settings)
                groups.append(CaseGroup(point=point, variants=chosen))
    return groups


def at(shape: Shape, measure: str, settings: BenchSettings) -> list[Point]:
    """The points of one measure. Encoder-decoder models generate from their source, without a prompt."""
    source = settings.source_length or shape.source_length
    point = Point(
        shape=shape,
        measure=measure,
        batch=settings.batch or (1 if measure in AT_CONTEXT else shape.batch),
        length=settings.length or shape.length,
        source_length=source if shape.encoder_decoder else 0,
    )
    if measure not in AT_CONTEXT or (measure == "generate" and shape.encoder_decoder):
        return [point]
    return [replace(point, context=context) for context in settings.contexts]


def scaled(shape: Shape, scale: Scale, settings: BenchSettings) -> list[CaseGroup]:
    """The groups along one axis. Where k grows, only methods that rerank are measured."""
    groups = []
    methods = settings.methods or shape.methods
    for measure in settings.measures:
        for value in scale.values:
            chosen = [with_k(method, value) for method in methods] if scale.axis == "k" else methods
            rerank = tuple(method for method in chosen if method is not None)
            if not rerank:
                raise ValueError(f"scale {scale}: none of {', '.join(methods)} reranks words (part r).")
            for point in dict.fromkeys(moved(point, scale.axis, value) for point in at(shape, measure, settings)):
                groups.append(CaseGroup(point=point, variants=variants(point, rerank, settings)))
    return groups


def moved(point: Point, axis: str, value: int) -> Point:
    """The same point with another size. Where T grows, the context of a decoding step or the prompt does."""
    point = replace(point, axis=axis, value=value)
    if axis == "V":
        return replace(point, shape=replace(point.shape, vocabulary=value))
    if axis == "B":
        return replace(point, batch=value)
    if axis == "T":
        return replace(point, length=value, context=None if point.context is None else value)
    return point


def variants(point: Point, methods: tuple[str, ...], settings: BenchSettings) -> tuple[HeadVariant, ...]:
    """The baseline, then each method; with `against_dense` each a second time, on the dense path."""
    chosen = [HeadVariant(method=settings.baseline)]
    for text in methods:
        method = Method.parse(text)
        method.check(encoder_decoder=point.shape.encoder_decoder, vocabulary=point.shape.vocabulary)
        chosen += [HeadVariant(method=str(method), path=p) for p in ("auto", *["dense"] * settings.against_dense)]
    return tuple(dict.fromkeys(chosen))


C, CPR, CPR_MI, MOS_MI, CEPR = "softmax+c", "softmax+cpr:20,100", "softmax+cpr:20,100+mi", "mos+mi", "softmax+cepr:20"
TIMES: dict[tuple[str, str], dict[str, float | None]] = {  # ratios of wall time; None: memory only
    ("gpt2", "train"): {C: 0.87, CPR: 0.93, CPR_MI: 0.98, MOS_MI: 1.40},
    ("gpt2", "loss"): {C: 0.90, CPR: 0.95, CPR_MI: 1.02},
    ("gpt2", "loss-no-logits"): {C: 0.75, CPR: 0.77, CPR_MI: 0.79},
    ("gpt2", "generate"): {C: 1.03, CPR: 1.06, CPR_MI: 1.13},
    ("vocab-152k", "train"): {CPR_MI: 0.92},
    ("vocab-152k", "decode"): {CPR_MI: 1.10},
    ("t5-small", "train"): {CEPR: None},
}
TRAINING_MEMORY = 1.0  # of every method and shape


@dataclass(frozen=True)
class Goal:
    """The most that a case should cost, as ratios to the plain model."""

    time: float | None = None
    memory: float | None = None


NO_GOAL = Goal()


def goal(point: Point, variant: HeadVariant, execution: Execution) -> Goal:
    """The goal of a case; none unless it runs as by default, and at the default sizes of its shape."""
    name, measure = point.shape.name, point.measure
    usual = execution == Execution() and variant.path == "auto" and variant.method != PLAIN
    if not usual or name not in SHAPES or point != default_point(name, measure):
        return NO_GOAL
    time = TIMES.get((name, measure), {}).get(variant.method)
    return Goal(time, TRAINING_MEMORY if measure == "train" else None)


def default_point(shape: str, measure: str) -> Point:
    (point,) = at(SHAPES[shape], measure, BenchSettings(contexts=(PROMPT,)))
    return point


def plan_goals() -> list[CaseGroup]:
    """The cases that have goals, and the plain model beside them."""
    groups = []
    for (shape, measure), times in TIMES.items():
        variants = tuple(HeadVariant(method=method) for method in (PLAIN, *times))
        memory = measure == "train"  # nothing else has a goal for it
        groups.append(CaseGroup(point=default_point(shape, measure), variants=variants, memory=memory))
    return groups
