"""Which part of which text: the same for every command that reads one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

WHOLE = "all"
PARTS = ("test", "valid", "train", WHOLE)


@dataclass(frozen=True, kw_only=True)
class TextPart:
    """`part` of the tokens of a text, which are split 96/2/2 and not shuffled, or `all` of them."""

    data: str
    column: str
    part: str

    def check(self) -> None:
        if self.part not in PARTS:
            raise ValueError(f"part {self.part!r}: unknown. Known: {', '.join(PARTS)}.")

    def tokens(self, tokenizer: Any) -> Any:
        """Token ids of the part, in one row."""
        from unbottle.data import split, tokens_of

        self.check()
        whole = tokens_of(self._rows(), tokenizer)
        found = whole if self.part == WHOLE else split(whole)[self.part]
        if len(found) < 2:
            raise ValueError(
                f"{self.data}: {len(found)} of its {len(whole)} tokens are in the part {self.part!r}, and 2 are the "
                "least. Give more text, or --part all."
            )
        return found

    def texts(self, tokenizer: Any) -> list[str]:
        """Texts of the part. One that was split is spelled from its tokens, as one text."""
        if self.part == WHOLE:
            return [row["text"] for row in self._rows()]
        ids = self.tokens(tokenizer).tolist()
        return [tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)]

    def _rows(self) -> Any:
        from unbottle.data import TextSource, read_texts

        return read_texts(TextSource(path=self.data, column=self.column))
