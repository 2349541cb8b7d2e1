"""Data sets that are known by a short name: texts, and the summarization data of the paper."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class NamedPairs:
    """Where it is, and which columns hold documents and summaries."""

    path: str  # owner/name, or owner/name:config
    text_column: str
    summary_column: str
    revision: str | None = None


NAMED: dict[str, NamedPairs] = {
    "cnn_dailymail": NamedPairs(path="abisee/cnn_dailymail:3.0.0", text_column="article", summary_column="highlights"),
    # Its main branch has a script, which is never run; this branch of the hub has the same rows in files.
    "xsum": NamedPairs(
        path="EdinburghNLP/xsum", text_column="document", summary_column="summary", revision="refs/convert/parquet"
    ),
    # A copy: the data set of its authors (Samsung/samsum) is not on the hub any more.
    "samsum": NamedPairs(path="knkarthick/samsum", text_column="dialogue", summary_column="summary"),
    # Differs from the paper: chapters. The paper summarizes paragraphs, which are not on the hub: their authors publish
    # scripts that make them. Give the file that those write as a path.
    "booksum": NamedPairs(path="kmfoda/booksum", text_column="chapter", summary_column="summary_text"),
}

PYTHON = "python"  # the source code of the standard library, which needs no download
NAMED_TEXTS: dict[str, str] = {  # on the hub, with the splits train, validation and test
    "wikitext-2": "Salesforce/wikitext:wikitext-2-raw-v1",
    "wikitext-103": "Salesforce/wikitext:wikitext-103-raw-v1",
}
TEXT_NAMES = (*NAMED_TEXTS, PYTHON)


def is_python(path: str) -> bool:
    """Whether the standard library is meant; a file or folder of that name comes first, as with every name."""
    return path == PYTHON and not Path(path).exists()
