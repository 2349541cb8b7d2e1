"""A method on a model: its equations, what it adds, what the paper reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unbottle.recipes.paper import TABLES
from unbottle.spec import LETTERS, Method

BASES = {
    "none": "the model as it is",
    "softmax": "one softmax behind a projection",
    "mos": "mixture of softmaxes",
    "pg": "pointer generator: copied probability is added, a gate decides",
    "ps": "pointer sentinel: copied probability is added, generating is one more place to point at",
    "copynet": "CopyNet: copied and generated scores are added before normalisation",
}
DEFAULT_FORM = "scaled"  # of unbottle.head.form, which would bring torch
MI, WBWR = "multiple input states", "word-by-word reranker: a second pass reads the candidates"


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """All that is said about a method; `adds` counts parameters by part of the head."""

    method: Method
    changes: tuple[str, ...]
    equations: tuple[str, ...]
    forms: dict[str, tuple[str, ...]]  # how the same is learnt, by the name of the form; all have the same size
    adds: dict[str, int]
    plain: int  # parameters of the model without it

    @staticmethod
    def of(method: Method, model: Any) -> Sheet:
        """The head is built without memory, as the model is."""
        import torch

        from unbottle.cli.plain_model import parameters
        from unbottle.head import Head
        from unbottle.head.equations import equations, parameterisation
        from unbottle.head.form import FORMS
        from unbottle.hf.attach import head_config

        with torch.device("meta"):
            heads = {form: Head(head_config(model, method, form=form)) for form in FORMS}
        head = heads["paper"]
        parts = {"L_h": head.L_h, "prior": head.prior, "gate": head.gate}
        adds = {name: parameters(part) for name, part in parts.items() if part is not None}
        adds |= {f"L_{name}": parameters(part) for name, part in head.L.items()}
        return Sheet(
            method=method,
            changes=changes(method),
            equations=tuple(equations(head)),
            forms={form: tuple(lines) for form, each in heads.items() if (lines := parameterisation(each))},
            adds={name: count for name, count in adds.items() if count},
            plain=parameters(model),
        )

    @property
    def added(self) -> int:
        return sum(self.adds.values())

    @property
    def paper(self) -> dict[str, dict[str, float]]:
        """What the paper's tables say about it, by table and column."""
        name = str(self.method)
        return {title: dict(zip(columns, rows[name], strict=True)) for title, columns, rows in TABLES if name in rows}

    def to_dict(self) -> dict[str, Any]:
        return {
            "method": str(self.method),
            "title": self.method.title,
            "changes": list(self.changes),
            "equations": list(self.equations),
            "forms": {name: list(lines) for name, lines in self.forms.items()},
            "parameters": {"added": self.added, "by part": self.adds, "plain model": self.plain},
            "paper": self.paper,
        }

    def __str__(self) -> str:
        """For people, some lines."""
        lines = [f"{self.method}   ({self.method.title})", f"  {'; '.join(self.changes)}", ""]
        lines += [f"    {line}" for line in self.equations]
        parts = ", ".join(f"{name} {count:,}" for name, count in self.adds.items())
        lines += ["", f"  adds {self.added:,} parameters ({self.added / self.plain:.1%}){': ' if parts else ''}{parts}"]
        if DEFAULT_FORM in self.forms:
            lines.append(f"  learnt as: {'; '.join(self.forms[DEFAULT_FORM])}")
        for title, row in self.paper.items():
            lines.append(f"  paper, {title}: {', '.join(f'{name} {number:g}' for name, number in row.items())}")
        return "\n".join(lines)


def changes(method: Method) -> tuple[str, ...]:
    """What each of its parts is."""
    found = [BASES[method.base], *(LETTERS[letter].meaning for letter in method.letters)]
    return (*found, *([WBWR] if method.wbwr else []), *([MI] if method.mi else []))
