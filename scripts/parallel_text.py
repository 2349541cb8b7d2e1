"""Write a parallel text to fine-tune translation models on, from the Debian package index.

    apt-get download debian-handbook
    python scripts/parallel_text.py debian-handbook_*.deb OUTPUT --language zh-CN

The Debian Administrator's Handbook (GPL-2+ or CC BY-SA 3.0) is translated paragraph by paragraph into files of the same
names. OUTPUT gets train.jsonl, valid.jsonl and test.jsonl with columns `document` (the translation) and `summary` (the
English original), which `unbottle train summarize` and `unbottle compare --pairs` read. Every part has whole sections:
of ten files one is for validation and two are for the test.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import tempfile
from html.parser import HTMLParser
from pathlib import Path

from unbottle.files import write_text

PARTS = ("train", "train", "valid", "train", "test", "train", "train", "train", "test", "train")  # of ten files
SHORTEST = 5  # words of an original: shorter ones are titles and labels


class Paragraphs(HTMLParser):
    """The texts of `<div class="para">` elements, without those inside of them and without listings."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._open: list[list[str] | None] = []  # for each open div: its text if it is a paragraph
        self._listings = 0
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._listings += tag == "pre"
        if tag == "div":
            self._open.append([] if dict(attrs).get("class") == "para" else None)

    def handle_endtag(self, tag: str) -> None:
        self._listings -= tag == "pre"
        if tag == "div" and self._open and (text := self._open.pop()) is not None:
            self.texts.append(" ".join("".join(text).split()))

    def handle_data(self, data: str) -> None:
        paragraph = next((text for text in reversed(self._open) if text is not None), None)
        if paragraph is not None and not self._listings:
            paragraph.append(data)


def pairs(original: str, translation: str) -> list[tuple[str, str]]:
    """Paragraphs of two pages that stand for each other, translation first; none if the pages have different numbers.

    Those that are short, or not translated, are left out.
    """
    originals, translations = Paragraphs(original).texts, Paragraphs(translation).texts
    if len(originals) != len(translations):
        return []
    both = zip(translations, originals, strict=True)
    return [(text, english) for text, english in both if is_translated(text, english)]


def is_translated(text: str, english: str) -> bool:
    """Whether most words of a paragraph of some length have been replaced."""
    words = english.split()
    kept = {*words} & {*text.split()}
    return len(words) >= SHORTEST and bool(text) and sum(word in kept for word in words) < len(words) / 2


def parts(handbook: Path, language: str) -> dict[str, list[dict[str, str]]]:
    """The pairs of each part, from the folder that has a folder for each language."""
    rows: dict[str, list[dict[str, str]]] = {part: [] for part in dict.fromkeys(PARTS)}
    pages = [page for page in sorted((handbook / language).glob("*.html")) if (handbook / "en-US" / page.name).exists()]
    if not pages:
        languages = ", ".join(sorted(folder.name for folder in handbook.iterdir() if folder.is_dir()))
        raise ValueError(f"--language {language}: unknown. Known: {languages}.")
    for number, page in enumerate(pages):
        english = (handbook / "en-US" / page.name).read_text(encoding="utf-8")
        for place, (text, original) in enumerate(pairs(english, page.read_text(encoding="utf-8"))):
            row = {"id": f"{page.stem}:{place}", "document": text, "summary": original}
            rows[PARTS[number % len(PARTS)]].append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", type=Path, help="The Debian package debian-handbook.")
    parser.add_argument("output", type=Path, help="Folder for the three files.")
    parser.add_argument("--language", default="zh-CN", help="Language of the documents. [zh-CN]")
    options = parser.parse_args()
    if (unpack := shutil.which("dpkg-deb")) is None:
        parser.error("dpkg-deb is needed to unpack the package, and was not found.")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([unpack, "--extract", str(options.package), folder], check=True)
        try:
            rows = parts(Path(folder) / "usr/share/doc/debian-handbook/html", options.language)
        except ValueError as error:
            parser.error(str(error))
    for part, lines in rows.items():
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        write_text(options.output / f"{part}.jsonl", text)
        print(f"{len(lines):,} pairs written to {options.output / part}.jsonl")


if __name__ == "__main__":
    main()
