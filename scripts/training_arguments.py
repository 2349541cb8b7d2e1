"""Write src/unbottle/train/arguments.json: every training argument, as the command line shows it.

    python scripts/training_arguments.py

The command line must not import transformers to print its help or to refuse a typo. A test compares the file with the
installed TrainingArguments.
"""

from __future__ import annotations

import inspect
import json
import re
import types
import typing
from dataclasses import MISSING, Field, fields
from enum import Enum
from pathlib import Path

from transformers import TrainingArguments

from unbottle.train import arguments
from unbottle.train.arguments import HeadTrainingArguments, LMTrainingArguments, SummarizeTrainingArguments

FILE = Path(arguments.__file__).with_name("arguments.json")
TASKS = {"lm": LMTrainingArguments, "summarize": SummarizeTrainingArguments}
LEFT_OUT = ("parallelism_config", "local_rank", "do_train", "do_eval", "do_predict", *arguments.NOT_SUPPORTED)
GROUP = re.compile(r"^    # --- (?P<title>.*) ---$|^    (?P<name>\w+): ", re.MULTILINE)


def groups() -> dict[str, str]:
    """The group of each argument, from the comments in the source; those of transformers first."""
    titles: dict[str, str] = {}
    for kind in (TrainingArguments, HeadTrainingArguments, LMTrainingArguments, SummarizeTrainingArguments):
        title = "Output layer and trained parameters"
        for match in GROUP.finditer(inspect.getsource(kind)):
            title = match["title"] or title
            if match["name"]:
                titles.setdefault(match["name"], title)
    return titles


def describe(field: Field[object], hint: object, group: str) -> dict[str, object]:
    options = set(typing.get_args(hint)) if typing.get_origin(hint) in (typing.Union, types.UnionType) else {hint}
    kinds = {"bool": bool, "int": int, "float": float}
    kind = next((name for name, python in kinds.items() if python in options and str not in options), "str")
    if any(typing.get_origin(option) is list for option in options):
        kind = "list"
    elif any((typing.get_origin(option) or option) is dict for option in options):
        kind = "json"
    enums = [option for option in options if isinstance(option, type) and issubclass(option, Enum)]
    choices = [member.value for member in enums[0]] if enums else [*(field.metadata.get("choices") or ())]
    default = field.default_factory() if field.default_factory is not MISSING else field.default
    text = field.metadata.get("help") or TrainingArguments.__dataclass_fields__[field.name].metadata.get("help", "")
    return {
        "name": field.name,
        "kind": kind,
        "optional": type(None) in options,
        "default": default.value if isinstance(default, Enum) else default,
        **({"choices": choices} if choices and kind == "str" else {}),
        "group": group,
        "help": " ".join(text.split()),
    }


def contents() -> dict[str, list[dict[str, object]]]:
    """Arguments that both tasks share, and those of each task alone."""
    titles, tasks = groups(), {}
    for task, kind in TASKS.items():
        hints = typing.get_type_hints(kind)
        own = [field for field in fields(kind) if field.init and field.name not in LEFT_OUT]
        tasks[task] = [describe(field, hints[field.name], titles[field.name]) for field in own]
    shared = [field for field in tasks["lm"] if field in tasks["summarize"]]
    return {"shared": shared, **{task: [f for f in described if f not in shared] for task, described in tasks.items()}}


def text() -> str:
    lists = (
        f' "{name}": [\n' + ",\n".join(f"  {json.dumps(field)}" for field in described) + "\n ]"
        for name, described in contents().items()
    )
    return "{\n" + ",\n".join(lists) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
