"""The tables of methods in Markdown, as README.md has them."""

from __future__ import annotations

from collections.abc import Sequence

from unbottle.cli.method_sheet import BASES, MI, WBWR, Sheet
from unbottle.spec import LETTERS, Method

PARTS = ("written", "is", "where", "what it does")
MODELS = {"Small": "perplexity, GPT-2 Small", "Medium": "perplexity, GPT-2 Medium"}  # of the paper
TEXTS = ("OWT", "Wiki")
METHODS = ("method", "adds", *(f"{text}, {model}" for model in MODELS for text in TEXTS))
SIZES = "20,100"  # as an example


def parts() -> str:
    """What a method is written with: bases, letters, and the two parts with names of their own."""
    from unbottle.head import Head, HeadConfig
    from unbottle.head.equations import equations

    def head(method: str) -> Head:
        return Head(HeadConfig(method=Method.parse(method), hidden_size=1, vocabulary=1000, encoder_decoder=True))

    rows = [["softmax", BASES["softmax"], "every x", "Logit(x) = f_V . w_x"]]
    for letter, known in sorted(LETTERS.items()):
        written = f"{letter}:{SIZES}" if known.takes_ks else letter
        found = head(f"softmax+{written}").partitions
        where, what = ("; ".join(getattr(part, name) for part in found) for name in ("where", "what"))
        rows.append([written, known.meaning, where, what])
    (reranker,) = head("softmax+wbwr:100").partitions
    rows.append(["wbwr:100", WBWR, reranker.where, reranker.what])
    rows.append(["mi:3x3", MI, "", equations(head("softmax+mi:3x3"))[0]])
    for base in ("mos:3", "pg", "ps"):
        rows.append([base, BASES[base.partition(":")[0]], "", equations(head(base))[1]])
    (copynet,) = head("copynet").partitions
    rows.append(["copynet", BASES["copynet"], copynet.where, copynet.what])
    return table(PARTS, [[code(row[0]), row[1], code(row[2]), code(row[3])] for row in rows])


def methods(sheets: Sequence[Sheet]) -> str:
    """What each method adds to a model, and the perplexities that the paper reports."""
    rows = []
    for sheet in sheets:
        found = [sheet.paper.get(table, {}).get(text) for table in MODELS.values() for text in TEXTS]
        numbers = ["" if number is None else f"{number:.2f}" for number in found]
        rows.append([code(str(sheet.method)), f"{sheet.added / 1e6:.1f} M ({sheet.added / sheet.plain:.1%})", *numbers])
    return table(METHODS, rows)


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def table(title: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """One line each, not padded: cells are long."""
    lines = [title, ["---"] * len(title), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
