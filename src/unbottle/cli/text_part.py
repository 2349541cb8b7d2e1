"""Which part of which text: the same for every command that reads one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unbottle.cli.options import check_choice, check_place

WHOLE = "all"
PARTS = ("test", "valid", "train", WHOLE)
HELP = "test, valid, train or all; what has no parts of its own is cut 96/2/2. [its own test part, or all]"


@dataclass(frozen=True, kw_only=True)
class Excerpt:
    """Token ids in one row, and what they are in one sentence."""

    ids: Any
    about: str


@dataclass(frozen=True, kw_only=True)
class TextPart:
    """`part` of a text. A hub data set, or a folder with files train, valid and test, has parts of its own; any other
    text is split 96/2/2 and not shuffled. None: its own test part, or all of it if it has none."""

    data: str
    column: str
    part: str | None

    def check(self) -> None:
        if self.part is not None:
            check_choice("part", self.part, PARTS)
        check_place(self.data)

    def excerpt(self, tokenizer: Any) -> Excerpt:
        """Token ids of the part, and what was taken of what."""
        from unbottle.data import tokens_of
        from unbottle.experiments.corpora import Corpus

        self.check()
        part, places = self._chosen()
        if places is None:
            corpus = Corpus.read(self.data, tokenizer, column=self.column)
            ids, whole = getattr(corpus, part), sum(map(len, (corpus.train, corpus.valid, corpus.test)))
            about = (
                f"the part {part!r} of {self.data}, cut 96/2/2: {len(ids):,} of {whole:,} tokens. --part all takes all"
            )
        else:
            ids = tokens_of((row for place in places for row in self._rows(place)), tokenizer)
            about = f"{'all' if part == WHOLE else f'the part {part!r}'} of {self.data}: {len(ids):,} tokens"
        if len(ids) < 2:
            raise ValueError(f"{about}, and 2 are the least. Give more text.")
        return Excerpt(ids=ids, about=f"{about}.")

    def texts(self, tokenizer: Any) -> list[str]:
        """Texts of the part. One that was split is spelled from its tokens, as one text."""
        _, places = self._chosen()
        if places is not None:
            return [row["text"] for place in places for row in self._rows(place)]
        ids = self.excerpt(tokenizer).ids.tolist()
        return [tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)]

    def _chosen(self) -> tuple[str, list[Any] | None]:
        """The name of the part, and where it can be read; None: it has to be cut out."""
        from pathlib import Path

        from unbottle.data.sources import PARTS as ALL
        from unbottle.data.sources import Part, parts_of

        places = parts_of(self.data)
        part = self.part or ("test" if "test" in places else WHOLE)
        if part == WHOLE:
            local = Path(self.data).expanduser().exists()
            return part, [Part(self.data)] if local else [*places.values()]
        own = part in places and (part != "train" or len(places) == len(ALL))
        return part, [places[part]] if own else None

    def _rows(self, place: Any) -> Any:
        from unbottle.data import TextSource, read_texts

        return read_texts(TextSource(path=place.path, column=self.column, split=place.split))
