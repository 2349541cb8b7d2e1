"""Next words after prompts, and what the order of a list does to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unbottle.report.colours import legend
from unbottle.report.html import paragraph, preformatted, table
from unbottle.report.page import Section
from unbottle.report.words import next_words, side_by_side

ORDER = (
    "Each list in several orders. Listed: the probability of all listed words together, which should be near 1, or "
    "near 0 where the list should go on with something new. Evenness: entropy among them divided by log n, 1 if the "
    "model has no favourite. Winner changes: the share of the orders in which another word than usual is most likely."
)


def sections(folder: Any, config: Mapping[str, Any], result: Mapping[str, Any]) -> list[Section]:
    """Of `unbottle eval probe`."""
    return [words_section(result), *order_sections(result.get("order_bias", {}))]


def words_section(found: Mapping[str, Any], title: str = "The next word") -> Section:
    """Prompt by prompt, all models side by side."""
    body = [legend(word["partition"] for probed in found["found"] for word in probed["words"])]
    for prompt in dict.fromkeys(probed["prompt"] for probed in found["found"]):
        columns = [
            next_words(f"{probed['model']} ({probed['method']})", probed["words"])
            for probed in found["found"]
            if probed["prompt"] == prompt
        ]
        body += [preformatted(prompt, "prompt"), side_by_side(columns)]
    return Section(title=title, body=tuple(body))


def order_sections(biases: Mapping[str, Any], title: str = "Does the order of a list matter?") -> list[Section]:
    if not any(bias["rows"] for bias in biases.values()):
        return []
    header = ["list", "model", "listed", "should be", "evenness", "winner", "winner changes"]
    rows = [
        [
            ", ".join(row["options"]),
            name,
            f"{row['mass']:.3f}",
            "1" if row["repeats"] else "0",
            f"{row['evenness']:.3f}",
            row["winner"],
            f"{row['winner_changes']:.0%}",
        ]
        for together in zip(*(bias["rows"] for bias in biases.values()), strict=True)
        for name, row in zip(biases, together, strict=True)
    ]
    return [Section(title=title, body=(paragraph(ORDER), table(header, rows)))]
