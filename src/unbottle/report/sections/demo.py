"""The page of `unbottle demo`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unbottle.report.colours import legend
from unbottle.report.html import paragraph, preformatted
from unbottle.report.page import Section
from unbottle.report.sections.costs import cost_table
from unbottle.report.sections.next_words import order_sections, words_section
from unbottle.report.sections.perplexities import perplexity_pieces
from unbottle.report.words import running_text

WHY = (
    "A language model ends in a softmax: one vector, compared with one fixed vector per word. When the next word "
    "should be one of two, the words whose vectors lie between them become likely too; and what a name means here, and "
    "not elsewhere, its vector does not know. CPR gives the words of the context (C, P) and the most likely words (R) "
    "a projection of their own; everything else stays the softmax that it was."
)


def sections(folder: Path, config: Mapping[str, Any], result: Mapping[str, Any]) -> list[Section]:
    verdict = result["verdict"]
    kind = "said good" if verdict["is_better"] else "said bad"
    return [
        Section(title="What this shows", body=(paragraph(WHY), *told(result), paragraph(verdict["said"], kind))),
        Section(
            title="Perplexity of text that was not trained on", body=tuple(perplexity_pieces(result["perplexity"]))
        ),
        text_section(result),
        words_section(result["words"], "The next word after a prompt"),
        *order_sections(result["order"]),
        Section(title="What it costs", body=(paragraph(cost_note(result), "quiet"), cost_table(result["cost"]))),
        models_section(result),
    ]


def told(result: Mapping[str, Any]) -> list[str]:
    """The model, the text, the training: all that is needed to judge the numbers."""
    model, text, training = result["model"], result["text"], result["training"]
    licence = f", {model['licence']}" if model["licence"] else ""
    methods = " and ".join(f"{name} (`{method}`)" for name, method in result["methods"].items())
    return [
        paragraph(
            f"Model: {model['title']}, {model['parameters'] / 1e6:.1f} million parameters{licence}; {model['about']}. "
            f"Text: {text['what']} ({text['licence']}), {text['train']['tokens']:,} tokens of {text['train']['files']} "
            f"files to train on, {text['test']['tokens']:,} tokens of {text['test']['files']} other files held out. "
            f"The model is frozen; two heads, {methods}, are trained on the same hidden states in the same "
            f"order, one pass, learning rate {training['lr']:g}. Both start as the plain model (before). "
            f"Form of the heads: {training['form']}.",
            "quiet",
        )
    ]


def text_section(result: Mapping[str, Any]) -> Section:
    """A held-out text in colours."""
    text = result["text_by_word"]
    tips = [
        f"{token!r}, set by {partition}: "
        + ", ".join(f"{name} {values[place]:.3f}" for name, values in text["probabilities"].items())
        for place, (token, partition) in enumerate(zip(text["tokens"], text["partitions"], strict=True))
    ]
    note = (
        "Each word in the colour of the partition that set its logit in the CPR head. Point at a word for the "
        "probability that each model gave it. This is the held-out window whose gain is the middle one of all."
    )
    shown = running_text(text["read"], text["tokens"], text["partitions"], tips)
    return Section(title="Who predicts which word", body=(paragraph(note), legend(text["partitions"]), shown))


def cost_note(result: Mapping[str, Any]) -> str:
    found = result["machine"]
    where = f"{found['processor']}, {found['cores']} cores"
    return f"A short measurement, time by the clock, on {where}. `unbottle bench` measures longer."


def models_section(result: Mapping[str, Any]) -> Section:
    path = result["models"]["cpr"]
    lines = [
        "import unbottle",
        "from transformers import AutoModelForCausalLM",
        "",
        f"model = AutoModelForCausalLM.from_pretrained({path!r})",
    ]
    return Section(title="The models", body=(preformatted("\n".join(lines)),))
