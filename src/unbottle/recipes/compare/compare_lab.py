"""CompareLab: where the rows of a comparison are trained."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from unbottle.eval.perplexity import likely_tokens
from unbottle.head.form import DEFAULT_FORM
from unbottle.recipes.any_lab import CONTENT, Report
from unbottle.recipes.compare.parts import windows_of
from unbottle.recipes.corpus import content_of
from unbottle.recipes.lab import Lab
from unbottle.recipes.read_already import ReadAlready
from unbottle.recipes.variant import Variant
from unbottle.train.head_alone import StoredWindows, stored

BATCH = 2  # windows that are evaluated at once: their logits fill 100 MB if there are 49,152 words


class CompareLab(Lab):
    """One pretrained model, one text. A frozen model reads each window once, for all rows and seeds."""

    form = DEFAULT_FORM
    lr: float | None = None  # of all rows, once it is chosen
    keep_models = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.cpu: dict[Path, float] = {}  # seconds of all threads, for what was trained just now
        self._likely: dict[tuple[str, str], list[Any]] = {}

    @cached_property
    def settings(self) -> dict[str, Any]:
        models = {size: content_of(str(backbone.pretrained)) for size, backbone in self.preset.backbones.items()}
        return {
            "preset": self.preset.to_dict(),
            "data": Path(self.data).name,
            CONTENT: content_of(self.data),
            "models": models,
        }

    @property
    def frozen(self) -> bool:
        return bool(self.preset.rows.train == "head")

    @property
    def usual(self) -> Any:
        """How rows are trained."""
        rows = replace(self.preset.rows, states=str(self.folder / "states"))
        return rows if self.lr is None else replace(rows, lr=self.lr)

    @cached_property
    def parts(self) -> dict[str, Any]:
        self.report(0, 1, "reading the text")
        preset = self.preset
        tokens = {"train": preset.train_tokens, "valid": preset.valid_tokens, "test": preset.test_tokens}
        return windows_of(self.data, self.tokenizer, preset.rows.length, tokens)

    def reader(self, model: Any, part: str) -> Any:
        """What predicts the windows of a part: the model, or its head and what the frozen model said about them."""
        return ReadAlready(model, self.stored(model, part)) if self.frozen else model

    def stored(self, model: Any, part: str) -> StoredWindows:
        return stored(model, self.parts[part], self.usual, self.report)

    def before(self, size: str) -> Any:
        """A fresh head predicts what the plain model does, and has a place for hidden states."""
        return self.with_head(Variant.parse(self.preset.baseline), 0, size).eval()

    def likely(self, part: str, size: str) -> list[Any]:
        """Which tokens are in W(k) of the plain model: the groups of all rows."""
        key = (part, size)
        if key not in self._likely:
            windows = self.parts[part]
            reader = self.reader(self.before(size), part)
            self._likely[key] = likely_tokens(reader, windows, k=self.preset.k, batch=BATCH)
        return self._likely[key]

    def trained(self, method: str, seed: int, *, size: str, share: float = 1.0) -> Path:
        assert share == 1, "rows of a comparison are trained in full"
        name = "rows" if self.lr is None else f"rows-{self.lr:g}"
        return self.row(lambda: self.parts["train"], self.usual, method, seed, name, size)

    def fit(self, model: Any, data: Any, settings: Any, *, report: Report, tokenizer: Any) -> None:
        if self.frozen:
            stored(model, data, settings, report)  # what is read once for all rows is no part of this one's time
        started = time.process_time()
        super().fit(model, data, settings, report=report, tokenizer=tokenizer)
        self.cpu[Path(settings.output)] = time.process_time() - started

    def done_with(self, model: Path) -> None:
        """A hundred models of half a gigabyte: only their numbers are kept, unless somebody wants them."""
        if not self.keep_models:
            shutil.rmtree(model.parent)
