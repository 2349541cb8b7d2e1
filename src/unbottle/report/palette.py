"""Colours of partitions and of series, on light and dark backgrounds, for the report page, the app and plots."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Colour:
    """A colour for text and lines: `light` is readable on a light background, `dark` on a dark one."""

    name: str
    light: str
    dark: str
    meaning: str

    @property
    def css(self) -> str:
        """A reference to the variable that `stylesheet` defines."""
        return f"var(--ub-{self.name})"


PARTITIONS = {  # by the partition that set a logit; hues after Okabe and Ito, for colour-blind readers
    "softmax": Colour("v", "#667080", "#98a4b3", "the plain softmax"),
    "V": Colour("v", "#667080", "#98a4b3", "the softmax over all words"),
    "C": Colour("c", "#946000", "#e69f00", "words of the context"),
    "PD": Colour("pd", "#b34a00", "#f08a3c", "words of the context, with local embeddings"),
    "E": Colour("e", "#23749c", "#7cc5f0", "words of the encoder input"),
    "PE": Colour("pe", "#0059a8", "#5b9bea", "words of the encoder input, with local embeddings"),
    "R1": Colour("r1", "#007a58", "#1fbf8f", "the most likely words, reranked"),
    "R2": Colour("r2", "#3b7a63", "#8fd6c6", "the next most likely words, reranked"),
    "WBWR": Colour("wbwr", "#a4457a", "#d98bb6", "the most likely words, reranked one by one"),
    "I1": Colour("i1", "#c03a68", "#f0a0bd", "words that followed the last word before"),
    "I2": Colour("i2", "#8a4a9c", "#c78fd6", "words that followed the last two words before"),
    "COPY": Colour("copy", "#756800", "#d6c52a", "words copied from the context or the source"),
}
MIXTURE = Colour("mixture", "#6f6a79", "#b5bcc8", "")
RERANKED = Colour("reranked", "#55785f", "#b8e0d2", PARTITIONS["R2"].meaning)
OTHER = Colour("other", "#6b54b0", "#b09be0", "another part of this method")
MODELS = {"before": MIXTURE, "softmax": PARTITIONS["V"], "mos": MIXTURE, "c": PARTITIONS["C"], "cpr": PARTITIONS["PD"]}
SERIES = tuple(PARTITIONS[name] for name in ("V", "C", "PE", "I2", "R1", "I1"))  # of bars and lines, in this order


def colour_of(partition: str) -> Colour:
    """The colour of a partition; names beyond PARTITIONS (V2 of a mixture, R3, custom ones) have shared colours."""
    if partition in PARTITIONS:
        return PARTITIONS[partition]
    if partition[:1] == "V" and partition[1:].isdigit():
        return Colour(MIXTURE.name, MIXTURE.light, MIXTURE.dark, f"softmax {partition[1:]} of the mixture")
    return RERANKED if partition[:1] == "R" and partition[1:].isdigit() else OTHER


def stylesheet(dark: str) -> str:
    """CSS that defines all colours; `dark` is a rule for dark backgrounds, with {} in place of the definitions."""
    colours = {colour.name: colour for colour in (*PARTITIONS.values(), MIXTURE, RERANKED, OTHER)}.values()
    light_rules, dark_rules = (
        " ".join(f"--ub-{colour.name}: {value};" for colour, value in zip(colours, values, strict=True))
        for values in ([colour.light for colour in colours], [colour.dark for colour in colours])
    )
    return f":root {{ {light_rules} }}\n{dark.replace('{}', f'{{ {dark_rules} }}')}\n"
