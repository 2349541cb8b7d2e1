"""A colour and a meaning for each partition. The name is always shown beside the colour."""

from __future__ import annotations

from dataclasses import dataclass

from unbottle.eval.probe import PLAIN


@dataclass(frozen=True, kw_only=True)
class Colour:
    """`value` is one of a palette that people who do not see all colours can tell apart (after Okabe and Ito)."""

    value: str
    meaning: str


COLOURS = {
    PLAIN: Colour(value="#7a8699", meaning="the model's own softmax over all words"),
    "V": Colour(value="#7a8699", meaning="the softmax over all words"),
    "C": Colour(value="#e69f00", meaning="words of the text so far"),
    "PD": Colour(value="#d55e00", meaning="words of the text so far, by where they stand"),
    "E": Colour(value="#56b4e9", meaning="words of the source"),
    "PE": Colour(value="#0072b2", meaning="words of the source, by where they stand"),
    "R1": Colour(value="#009e73", meaning="the most likely words, judged again"),
    "R2": Colour(value="#7fcdbb", meaning="the next most likely words, judged again"),
    "WBWR": Colour(value="#cc79a7", meaning="the most likely words, each read by the model"),
    "I1": Colour(value="#e7a1c4", meaning="words that followed the last word before"),
    "I2": Colour(value="#a0559a", meaning="words that followed the last two words before"),
    "COPY": Colour(value="#c9b400", meaning="copied from the text or the source"),
}
OTHER = Colour(value="#9b7fd1", meaning="another part of this method")


def colour_of(partition: str) -> Colour:
    """Of a name that an explanation uses; what is not known (V2 of a mixture, your own partition) has one too."""
    if partition in COLOURS:
        return COLOURS[partition]
    if partition[:1] == "V" and partition[1:].isdigit():
        return Colour(value="#a9b4c2", meaning=f"softmax {partition[1:]} of the mixture")
    if partition[:1] == "R" and partition[1:].isdigit():
        return Colour(value="#b8e0d2", meaning=COLOURS["R2"].meaning)
    return OTHER
