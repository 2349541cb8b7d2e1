"""Fine-tune models with and without a head at the learning rates people use, and compare held-out perplexities.

    python scripts/learning_rates.py --models models --text wikitext-2 --pairs samsum --output results/learning-rates

One row for each model, recipe (head only, LoRA, all weights), learning rate, eps of AdamW, method and seed; "none" is
plain fine-tuning, which with the recipe "head" leaves the model as it is. Training is transformers' Trainer with its
own defaults: AdamW, linear decay, no warm-up, gradients clipped at 1. Rows that are in OUTPUT/rows.jsonl are not
trained again, so the command can be interrupted and repeated, also with other options: OUTPUT/table.md has all rows.

`--models` is a folder with one folder for each model; `--text` a folder with train.* and test.*, `--pairs` the same
with columns dialogue and summary.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor
from torch.utils.data import Dataset
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    Trainer,
    TrainingArguments,
    logging,
)

import unbottle
from unbottle.data.summaries import PairSource, read_pairs
from unbottle.data.text import TextSource, read_texts
from unbottle.data.tokens import tokens_of
from unbottle.head.projection import DEFAULT_FORM
from unbottle.hf.head_inputs import layers_of
from unbottle.hf.pretrained import NO_CODE, SAFE
from unbottle.method import Method
from unbottle.tables import Table
from unbottle.train.modes import FrozenBackbone

NONE = "none"
METHODS = {False: (NONE, "softmax+mi", "softmax+cpr:20,100+mi"), True: (NONE, "softmax+mi", "softmax+cepr:20+mi")}
LEARNING_RATES = (1e-5, 5e-5, 1e-4, 3e-4, 1e-3)
RECIPES = ("head", "lora", "all")
ALLOWED = 0.005  # a head may be worse than plain fine-tuning by so much


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How much a row reads; the same for all rows of a model."""

    steps: int = 60
    batch: int = 2  # windows, or pairs
    length: int = 128  # tokens of a window or of a document; summaries have half
    held_out: int = 48  # windows, or pairs


@dataclass(frozen=True, kw_only=True)
class Row:
    model: str
    recipe: str
    method: str
    form: str = "scaled"
    lr: float
    eps: float = 1e-8
    seed: int = 0
    budget: Budget = Budget()


class Task:
    """A model and what it reads, loaded once."""

    def __init__(self, folder: Path, text: str, pairs: str, budget: Budget) -> None:
        self.folder, self.budget = folder, budget
        self.seq2seq = bool(AutoConfig.from_pretrained(folder, **NO_CODE).is_encoder_decoder)
        self.tokenizer = AutoTokenizer.from_pretrained(folder, **NO_CODE)
        number = budget.steps * budget.batch
        read = self._pairs if self.seq2seq else self._windows
        data = pairs if self.seq2seq else text
        self.train, self.test = read(data, "train", number), read(data, "test", budget.held_out)

    def model(self, row: Row) -> Any:
        model = (AutoModelForSeq2SeqLM if self.seq2seq else AutoModelForCausalLM).from_pretrained(self.folder, **SAFE)
        torch.manual_seed(row.seed)
        if row.method != NONE:
            unbottle.attach(model, row.method, form=row.form)
        if row.recipe == "lora":
            with_head = {"modules_to_save": ["head"], "exclude_modules": r"head\..*"} if row.method != NONE else {}
            kind = "SEQ_2_SEQ_LM" if self.seq2seq else "CAUSAL_LM"
            model = get_peft_model(model, LoraConfig(task_type=kind, r=8, target_modules="all-linear", **with_head))
        return model

    def collate(self, rows: list[dict[str, Any]]) -> dict[str, Tensor]:
        if not self.seq2seq:
            return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}
        return dict(DataCollatorForSeq2Seq(self.tokenizer)(rows))

    @cache  # noqa: B019 - one task lives as long as the script needs it
    def states(self, depth: int) -> tuple[list[Tensor], list[Tensor]]:
        """What the frozen model says about each window, for a head that reads so many layers."""
        model = AutoModelForCausalLM.from_pretrained(self.folder, **SAFE).eval()
        unbottle.attach(model, f"softmax+mi:{depth}x1")
        with torch.no_grad():
            first, second = (
                [layers_of(model, {"input_ids": window["input_ids"][None]})[0] for window in part]
                for part in (self.train, self.test)
            )
        return first, second

    def _windows(self, text: str, part: str, number: int) -> list[dict[str, Tensor]]:
        length = self.budget.length
        texts = read_texts(TextSource(path=_file(text, part)))
        ids = tokens_of(texts.select(range(min(len(texts), number * length))), self.tokenizer)  # a line has a token
        windows = torch.as_tensor(ids[: number * length]).long().view(number, length)
        return [{"input_ids": window, "labels": window} for window in windows]

    def _pairs(self, path: str, part: str, number: int) -> list[dict[str, Any]]:
        source = PairSource(path=_file(path, part), text_column="dialogue", summary_column="summary")
        own = self.folder / "target_tokenizer"  # Marian's two languages
        target = AutoTokenizer.from_pretrained(own, **NO_CODE) if own.exists() else self.tokenizer
        length = self.budget.length
        rows = []
        for pair in read_pairs(source).select(range(number)):
            document = self.tokenizer(pair["document"], truncation=True, max_length=length)
            labels = target(text_target=pair["summary"], truncation=True, max_length=length // 2)["input_ids"]
            rows.append({**document, "labels": labels})
        return rows


def _file(folder: str, part: str) -> str:
    return str(next(path for path in sorted(Path(folder).iterdir()) if path.name.startswith(part)))


class Stored(Dataset):
    """Windows with hidden states."""

    def __init__(self, windows: Sequence[dict[str, Tensor]], states: Sequence[Tensor]) -> None:
        self.windows, self.states = windows, states

    def __len__(self) -> int:
        return len(self.windows)

    def __getitem__(self, place: int) -> dict[str, Tensor]:
        return {**self.windows[place], "layers": self.states[place]}


def perplexity(task: Task, row: Row) -> tuple[float, float]:
    """Held-out perplexity before and after training."""
    model = task.model(row)
    train: Any = task.train
    test: Any = task.test
    if row.recipe == "head" and row.method != NONE:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name.startswith("head."))
        if not task.seq2seq:
            first, second = task.states(model.head.config.block[0])
            train, test = Stored(task.train, first), Stored(task.test, second)
            model = FrozenBackbone(model)
    before = _measure(task, model, test)
    if row.recipe == "head" and row.method == NONE:
        return before, before
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, max_steps=row.budget.steps, per_device_train_batch_size=row.budget.batch, learning_rate=row.lr,
            adam_epsilon=row.eps, seed=row.seed, report_to=[], save_strategy="no", logging_strategy="no",
            disable_tqdm=True, dataloader_pin_memory=False, remove_unused_columns=False, use_cpu=True,
        )  # fmt: skip
        Trainer(model, arguments, train_dataset=train, data_collator=task.collate).train()
    return before, _measure(task, model, test)


@torch.no_grad()
def _measure(task: Task, model: Any, test: Any) -> float:
    training = model.training
    model.eval()
    total = count = 0.0
    for start in range(0, len(test), 4):
        batch = task.collate([test[place] for place in range(start, min(start + 4, len(test)))])
        labels = batch["labels"] if task.seq2seq else batch["labels"][:, 1:]
        number = int((labels != -100).sum())
        loss = model(**batch)["loss"].item()
        total, count = total + loss * number, count + number
    model.train(training)
    return math.exp(min(total / count, 50.0))


def rows_of(options: argparse.Namespace, model: str, seq2seq: bool) -> Iterator[Row]:
    budget = Budget(steps=options.steps, batch=options.batch, length=options.length, held_out=options.held_out)
    methods = options.method or METHODS[seq2seq]
    for seed, recipe, eps, lr, method in itertools.product(
        range(options.seeds), options.recipe, options.eps, options.lr, methods
    ):
        row = Row(
            model=model, recipe=recipe, method=method, form=options.form, lr=lr, eps=eps, seed=seed, budget=budget
        )
        if method == NONE and recipe == "head":
            row = replace(row, lr=0.0, eps=0.0, seed=0)
        yield replace(row, form="") if method == NONE else row


def read(path: Path) -> dict[Row, dict[str, float]]:
    if not path.exists():
        return {}
    rows = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        values = json.loads(line)
        numbers = {name: values.pop(name) for name in ("before", "perplexity")}
        rows[Row(**values | {"budget": Budget(**values["budget"])})] = numbers
    return rows


class Sweep:
    """All rows, and what they say."""

    def __init__(self, rows: dict[Row, dict[str, float]]) -> None:
        self.rows = rows

    def seeds(self, **same: Any) -> dict[int, float]:
        """Perplexity by seed; of plain fine-tuning with the recipe "head", that of the model as it is."""
        if same["method"] == NONE:
            same["form"] = ""
            if same["recipe"] == "head":
                same |= {"lr": 0.0, "eps": 0.0}
        return {
            row.seed: numbers["perplexity"]
            for row, numbers in self.rows.items()
            if all(getattr(row, name) == value for name, value in same.items())
        }

    def document(self, form: str) -> str:
        parts = []
        keys = dict.fromkeys((row.model, row.recipe, row.eps, row.budget) for row in self.rows if row.form == form)
        for model, recipe, eps, budget in keys:
            same = {"model": model, "recipe": recipe, "eps": eps, "budget": budget, "form": form}
            methods = [*dict.fromkeys(row.method for row in self.rows if row.model == model and row.method != NONE)]
            rates = sorted({row.lr for row in self.rows if all(getattr(row, name) == same[name] for name in same)})
            lines = [self.line(rate, methods, same) for rate in rates]
            before = next(n["before"] for r, n in self.rows.items() if (r.model, r.budget) == (model, budget))
            titles = [Method.parse(method).title for method in methods]
            header = ["learning rate", "plain", *itertools.chain(*((title, "to plain") for title in titles)), "seeds"]
            parts.append(
                f"### {model}, {recipe}, eps {eps:g}\n\n{before:.2f} before; {budget.steps} steps of {budget.batch} x "
                f"{budget.length} tokens, {budget.held_out} held out.\n\n{Table(header, lines).markdown()}"
            )
        return "\n\n".join(parts)

    def line(self, rate: float, methods: Sequence[str], same: dict[str, Any]) -> list[str]:
        plain = self.seeds(lr=rate, method=NONE, **same)
        cells = [f"{rate:g}", f"{mean(plain.values()):.2f}" if plain else ""]
        count = 0
        for method in methods:
            ours = self.seeds(lr=rate, method=method, **same)
            count = max(count, len(ours))
            if not ours:
                cells += ["", ""]
                continue
            value = mean(ours.values())
            # a frozen model is the same with every seed
            others = dict.fromkeys(ours, *plain.values()) if same["recipe"] == "head" and plain else plain
            ratios = [math.log(ours[seed] / others[seed]) for seed in ours if seed in others]
            change = math.exp(mean(ratios)) - 1 if ratios else None
            mark = "**" if change is not None and change > ALLOWED else ""
            cells += [f"{value:.2f}", "" if change is None else f"{mark}{change:+.1%}{mark}"]
        return [*cells, str(count)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--model", action="append", help="only these folders of --models")
    parser.add_argument("--text", default="")
    parser.add_argument("--pairs", default="")
    parser.add_argument("--recipe", action="append", choices=RECIPES)
    parser.add_argument("--method", action="append")
    parser.add_argument("--form", default=DEFAULT_FORM)
    parser.add_argument("--lr", action="append", type=float)
    parser.add_argument("--eps", action="append", type=float)
    parser.add_argument("--seeds", type=int, default=1)
    for name in ("steps", "batch", "length", "held_out"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=getattr(Budget(), name))
    parser.add_argument("--output", type=Path, default=Path("results/learning-rates"))
    options = parser.parse_args()
    options.recipe, options.eps = options.recipe or RECIPES, options.eps or [1e-8]
    options.lr = options.lr or LEARNING_RATES
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "rows.jsonl"
    for name in options.model or sorted(folder.name for folder in options.models.iterdir()):
        folder = options.models / name
        task = None
        for row in rows_of(options, name, bool(AutoConfig.from_pretrained(folder, **NO_CODE).is_encoder_decoder)):
            if row in read(path):
                continue
            task = task or Task(folder, options.text, options.pairs, row.budget)
            before, after = perplexity(task, row)
            line = json.dumps(asdict(row) | {"before": before, "perplexity": after})
            with path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
            print(line, flush=True)
    sweep = Sweep(read(path))
    forms = dict.fromkeys([DEFAULT_FORM, *(row.form for row in sweep.rows if row.form)])
    parts = [f"## Form {form}\n\n{document}" for form in forms if (document := sweep.document(form))]
    (options.output / "table.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
