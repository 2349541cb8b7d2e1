"""Options that evaluation and generation commands share, and the part of a text that is evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unbottle.cli.options import MODEL_HELP, MODELS_HELP, TEXT_HELP, check_choice, check_place

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase as Tokenizer

    from unbottle.data.sources import Part
    from unbottle.data.tokens import TokenIds

ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_HELP)]
OptionalModelArgument = Annotated[str | None, typer.Argument(metavar="MODEL", help=MODEL_HELP)]
ModelsArgument = Annotated[list[str], typer.Argument(metavar="MODEL...", help=MODELS_HELP)]
OptionalModelsArgument = Annotated[list[str] | None, typer.Argument(metavar="MODEL...", help=MODELS_HELP)]
Data = Annotated[str, typer.Option(metavar="PATH", help=TEXT_HELP)]
OptionalData = Annotated[str | None, typer.Option(metavar="PATH", help=TEXT_HELP)]
TextColumn = Annotated[str, typer.Option(metavar="NAME", help="Column of texts.")]
PartOption = Annotated[
    str | None,
    typer.Option(
        metavar="PART",
        help="test, valid, train or all; data without parts is split 96/2/2. [its own test part, or all]",
    ),
]
TaggerOption = Annotated[
    str, typer.Option(metavar="TAGGER", help="Tagger of proper nouns: auto, spacy, spacy:PATH, nltk or rules.")
]
OutputFile = Annotated[Path | None, typer.Option(metavar="FILE", help="Output file. [stdout, with nothing else on it]")]

Sampling = Annotated[str, typer.Option(metavar="HOW", help="greedy, top-k or beams.")]
TopK = Annotated[int, typer.Option(metavar="N", help="Number of words to sample from, for --sampling top-k.")]
Beams = Annotated[int, typer.Option(metavar="N", help="Number of beams, for --sampling beams.")]
MaxNewTokens = Annotated[int, typer.Option(metavar="N", help="Maximum number of tokens to generate.")]
Batch = Annotated[int, typer.Option(metavar="N", help="Batch size; another batch size gives other samples.")]
JsonColumn = Annotated[str, typer.Option(metavar="NAME", help="Column of texts in a jsonl file.")]


def by_implementation(implementations: Mapping[str, str]) -> str:
    """A line for each implementation, after the metrics that it computes."""
    metrics: dict[str, list[str]] = {}
    for name, code in implementations.items():
        metrics.setdefault(code, []).append(name)
    return "\n".join(f"{', '.join(names)}: {code}." for code, names in metrics.items())


WHOLE = "all"
PARTS = ("test", "valid", "train", WHOLE)


@dataclass(frozen=True, kw_only=True)
class TokenizedPart:
    """Token ids in one row, and a sentence that says which part of which text they are."""

    ids: TokenIds
    about: str


@dataclass(frozen=True, kw_only=True)
class TextPart:
    """A part of a text. A hub data set, or a folder with files train, valid and test, has parts of its own; any other
    text is split 96/2/2 and not shuffled. None: its own test part, or all of it if it has none."""

    data: str
    column: str
    part: str | None

    def check(self) -> None:
        if self.part is not None:
            check_choice("part", self.part, PARTS)
        check_place(self.data)

    def tokenize(self, tokenizer: Tokenizer) -> TokenizedPart:
        """The token ids of the part."""
        from unbottle.data import tokens_of
        from unbottle.experiments.corpora import Corpus

        self.check()
        part, locations = self._locations()
        if locations is None:
            corpus = Corpus.read(self.data, tokenizer, column=self.column)
            ids, total = getattr(corpus, part), sum(map(len, (corpus.train, corpus.valid, corpus.test)))
            about = (
                f"the part {part!r} of {self.data}, cut 96/2/2: {len(ids):,} of {total:,} tokens. --part all takes all"
            )
        else:
            ids = tokens_of(({"text": text} for location in locations for text in self._texts(location)), tokenizer)
            about = f"{'all' if part == WHOLE else f'the part {part!r}'} of {self.data}: {len(ids):,} tokens"
        if len(ids) < 2:
            raise ValueError(f"{about}, and 2 are the least. Give more text.")
        return TokenizedPart(ids=ids, about=f"{about}.")

    def texts(self, tokenizer: Tokenizer) -> list[str]:
        """The texts of the part. A part of a split is decoded from its tokens, as one text."""
        _, locations = self._locations()
        if locations is not None:
            return [text for location in locations for text in self._texts(location)]
        ids = self.tokenize(tokenizer).ids.tolist()
        return [str(tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))]

    def _locations(self) -> tuple[str, list[Part] | None]:
        """The name of the part, and where it can be read; None if the text has to be split."""
        from unbottle.data.sources import PARTS as ALL
        from unbottle.data.sources import Part, parts_of

        locations = parts_of(self.data)
        part = self.part or ("test" if "test" in locations else WHOLE)
        if part == WHOLE:
            local = Path(self.data).expanduser().exists()
            return part, [Part(self.data)] if local else [*locations.values()]
        own = part in locations and (part != "train" or len(locations) == len(ALL))
        return part, [locations[part]] if own else None

    def _texts(self, location: Part) -> list[str]:
        from unbottle.data import TextSource, read_texts

        rows = read_texts(TextSource(path=location.path, column=self.column, split=location.split))
        return [row["text"] for row in rows]
