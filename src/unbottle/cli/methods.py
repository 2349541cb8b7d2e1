"""unbottle methods: equations of output layers, the parameters they add to a model, and the paper's numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from unbottle.cli.options import AsJson, argument, check_choice, check_method, check_model, flag, option
from unbottle.experiments.paper import TABLES
from unbottle.method import LETTERS, PAPER_METHODS, Method
from unbottle.tables import Table, number


def plain_model(model: str | None, shape: str = "") -> Any:
    """A model on the meta device, from the config of a folder or a hub model, or of a shape: it has no weights."""
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    from unbottle.hf.pretrained import language_model

    config = shape_config(shape) if model is None else own_config(model)
    auto: Any = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    with torch.device("meta"), language_model(model or shape, config):
        return auto.from_config(config)


def shape_config(name: str) -> Any:
    from transformers import AutoConfig

    from unbottle.bench.cases import SHAPES

    return AutoConfig.for_model(SHAPES[name].model_type, **SHAPES[name].options())


def own_config(model: str) -> Any:
    """The config of a model, without that of its head."""
    from unbottle.cli.models import config_of_model
    from unbottle.hf.configuration import ConfigFace, take_off

    config = config_of_model(model)
    if isinstance(config, ConfigFace):
        take_off(config)
    return config


def parameters(module: Any) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


BASES = {
    "none": "the model as it is",
    "softmax": "one softmax behind a projection",
    "mos": "mixture of softmaxes",
    "pg": "pointer generator: copied probability is added, a gate decides",
    "ps": "pointer sentinel: copied probability is added, generating is one more place to point at",
    "copynet": "CopyNet: copied and generated scores are added before normalisation",
}
MI, WBWR = "multiple input states", "word-by-word reranker: a second pass reads the candidates"


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """A method on a model; `adds` counts parameters by part of the head."""

    method: Method
    equations: list[str]
    forms: dict[str, list[str]]  # parameterisations, by the name of the form; all have the same size
    adds: dict[str, int]
    plain: int  # parameters of the model without a head

    @staticmethod
    def of(method: Method, model: Any) -> Sheet:
        """The head is built on the meta device, as the model is."""
        import torch

        from unbottle.head import Head
        from unbottle.head.equations import equations, parameterisation
        from unbottle.head.projection import FORMS
        from unbottle.hf.attach import head_config

        with torch.device("meta"):
            heads = {form: Head(head_config(model, method, form=form)) for form in FORMS}
        paper = heads["paper"]
        parts = {"L_h": paper.L_h, "prior": paper.prior, "gate": paper.gate}
        adds = {name: parameters(part) for name, part in parts.items() if part is not None}
        adds |= {f"L_{name}": parameters(part) for name, part in paper.L.items()}
        return Sheet(
            method=method,
            equations=list(equations(paper)),
            forms={form: list(lines) for form, head in heads.items() if (lines := parameterisation(head))},
            adds={name: count for name, count in adds.items() if count},
            plain=parameters(model),
        )

    @property
    def changes(self) -> list[str]:
        """What each part of the method is."""
        method = self.method
        named = [BASES[method.base], *(LETTERS[letter].meaning for letter in method.letters)]
        return [*named, *([WBWR] if method.wbwr else []), *([MI] if method.mi else [])]

    @property
    def added(self) -> int:
        return sum(self.adds.values())

    @property
    def paper(self) -> dict[str, dict[str, float]]:
        """The numbers of the paper, by table and column."""
        name = str(self.method)
        return {title: rows[name] for title, rows in TABLES.items() if name in rows}

    def to_dict(self) -> dict[str, Any]:
        return {
            "method": str(self.method),
            "title": self.method.title,
            "changes": self.changes,
            "equations": self.equations,
            "forms": self.forms,
            "parameters": {"added": self.added, "by part": self.adds, "plain model": self.plain},
            "paper": self.paper,
        }

    def __str__(self) -> str:
        """Several lines of text."""
        from unbottle.head.projection import DEFAULT_FORM

        lines = [f"{self.method}   ({self.method.title})", f"  {'; '.join(self.changes)}", ""]
        lines += [f"    {line}" for line in self.equations]
        parts = ", ".join(f"{name} {count:,}" for name, count in self.adds.items())
        lines += ["", f"  adds {self.added:,} parameters ({self.added / self.plain:.1%}){': ' if parts else ''}{parts}"]
        if DEFAULT_FORM in self.forms:
            lines.append(f"  learnt as: {'; '.join(self.forms[DEFAULT_FORM])}")
        for title, row in self.paper.items():
            lines.append(f"  paper, {title}: {', '.join(f'{name} {value:g}' for name, value in row.items())}")
        return "\n".join(lines)


PARTS = ("written", "is", "where", "what it does")
MODELS = {"Small": "perplexity, GPT-2 Small", "Medium": "perplexity, GPT-2 Medium"}  # of the paper
TEXTS = ("OWT", "Wiki")
METHODS = ("method", "adds", *(f"{text}, {model}" for model in MODELS for text in TEXTS))
SIZES = "20,100"  # as an example


def parts() -> str:
    """A Markdown table of bases and parts, and how they are written."""
    from unbottle.head import Head, HeadConfig
    from unbottle.head.equations import equations

    def head(method: str) -> Head:
        return Head(HeadConfig(method=Method.parse(method), hidden_size=1, vocabulary=1000, encoder_decoder=True))

    rows = [["softmax", BASES["softmax"], "every x", "Logit(x) = f_V . w_x"]]
    for letter, known in sorted(LETTERS.items()):
        written = f"{letter}:{SIZES}" if known.takes_ks else letter
        partitions = head(f"softmax+{written}").partitions
        where, what = ("; ".join(getattr(part, name) for part in partitions) for name in ("where", "what"))
        rows.append([written, known.meaning, where, what])
    (reranker,) = head("softmax+wbwr:100").partitions
    rows.append(["wbwr:100", WBWR, reranker.where, reranker.what])
    rows.append(["mi:3x3", MI, "", equations(head("softmax+mi:3x3"))[0]])
    for base in ("mos:3", "pg", "ps"):
        rows.append([base, BASES[base.partition(":")[0]], "", equations(head(base))[1]])
    (copynet,) = head("copynet").partitions
    rows.append(["copynet", BASES["copynet"], copynet.where, copynet.what])
    lines = [[code(row[0]), row[1], code(row[2]), code(row[3])] for row in rows]
    return Table(PARTS, lines).markdown(padded=False)


def method_table(sheets: Sequence[Sheet]) -> str:
    """A Markdown table of the parameters that methods add, and of the perplexities that the paper reports."""
    rows = []
    for sheet in sheets:
        values = [sheet.paper.get(table, {}).get(text) for table in MODELS.values() for text in TEXTS]
        numbers = [number(value) for value in values]
        rows.append([code(str(sheet.method)), f"{sheet.added / 1e6:.1f} M ({sheet.added / sheet.plain:.1%})", *numbers])
    return Table(METHODS, rows).markdown(padded=False)


def code(text: str) -> str:
    return f"`{text}`" if text else ""


EXAMPLES = """
unbottle methods
unbottle methods softmax+cpr:20,100+mi mos --shape smollm2-135m
unbottle methods --shape t5-small
unbottle methods s+cepr:20 --model t5-base
unbottle methods --markdown
"""


def methods(
    method: Annotated[list[str] | None, argument("METHOD...", "Methods. [those of the paper]")] = None,
    model: Annotated[
        str | None, option("MODEL", "A folder, a hub model or smollm2; only its config is loaded.")
    ] = None,
    shape: Annotated[str, option("SHAPE", "Instead of a model: gpt2, t5-small, bart-base, smollm2-135m, ...")] = "gpt2",
    as_markdown: Annotated[bool, flag("--markdown", "Print Markdown tables.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print methods: their equations, the parameters they add, and the numbers of the paper.

    A method is a base and parts: softmax (or s), mos:K, pg, ps, copynet; c, e, i, k, p, r:k1,k2, mi:LxW, wbwr:k.
    Parameters are counted for the model or shape; nothing is downloaded but a config.
    """
    from unbottle.bench.cases import SHAPES

    check_method(*(method or ()))
    check_model(model)
    check_choice("shape", shape, tuple(SHAPES))
    from unbottle.head.equations import LEGEND  # and every partition registers its letter

    wanted = [Method.parse(name) for name in method or PAPER_METHODS]
    plain = plain_model(model, shape)
    encoder = plain.config.is_encoder_decoder
    fitting = wanted if method else [known for known in wanted if fits(known, encoder_decoder=encoder)]
    sheets = [Sheet.of(known, plain) for known in fitting]
    if as_json:
        print(json.dumps([sheet.to_dict() for sheet in sheets], indent=1))
        return
    if as_markdown:
        print(f"{parts()}\n\n{method_table(sheets)}")
        return
    print("\n\n".join(map(str, sheets)))
    width = max(map(len, LEGEND))
    print("\nOf several lines of a logit the first that applies counts.")
    print("\n".join(f"  {name:<{width}}  {meaning}" for name, meaning in LEGEND.items()))
    if left := [str(known) for known in wanted if known not in fitting]:
        print(f"\nNot for a model {'with' if encoder else 'without'} an encoder: {', '.join(left)}")


def fits(method: Method, *, encoder_decoder: bool) -> bool:
    """Whether a model of this kind can have the method: e needs an encoder, wbwr a model without one."""
    needs_encoder = any(LETTERS[letter].needs_source for letter in method.letters)
    return method.wbwr is None if encoder_decoder else not needs_encoder
