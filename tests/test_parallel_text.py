"""Parallel text: which paragraphs of two pages stand for each other."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from parallel_text import PARTS, pairs, parts

SCRIPT = Path(__file__).parents[1] / "scripts" / "parallel_text.py"


def page(*paragraphs: str) -> str:
    return "".join(f'<div class="section"><div class="para">{text}</div></div>' for text in paragraphs)


def test_paragraphs_that_stand_for_each_other() -> None:
    english = page(
        "Falcot uses <em>Debian</em>\n on all servers.", "Run this: <pre>apt update</pre> as often as you like."
    )
    german = page(
        "Falcot setzt <em>Debian</em> auf allen Servern ein.", "So oft man will: <pre>apt update</pre> starten."
    )
    assert pairs(english, german) == [
        ("Falcot setzt Debian auf allen Servern ein.", "Falcot uses Debian on all servers."),
        ("So oft man will: starten.", "Run this: as often as you like."),
    ]


def test_a_paragraph_inside_of_another_stands_for_itself() -> None:
    nested = '<div class="para">Before it <div class="para">The inner one</div> and after</div>'
    other = '<div class="para">Vorher <div class="para">Das innere</div> nachher</div>'
    assert pairs(nested, other) == []  # both are short
    longer = nested.replace("inner one", "inner one has six words")
    assert pairs(longer, other) == [("Das innere", "The inner one has six words")]


@pytest.mark.parametrize(
    ("english", "other"),
    [
        (page("Five words are enough here."), page("Fünf Wörter reichen.", "Eins zu viel, was nicht sein darf.")),
        (page("Four words are few."), page("Vier Wörter sind wenig.")),
        (page("This one was not translated yet."), page("This one was not translated bisher.")),
        (page("The translation of it is missing."), page("")),
    ],
    ids=["other numbers", "short", "not translated", "empty"],
)
def test_left_out(english: str, other: str) -> None:
    assert pairs(english, other) == []


def handbook(folder: Path) -> Path:
    for number in range(10):
        for language, text in (
            ("en-US", f"Section {number} is about one machine."),
            ("de-DE", f"Abschnitt {number}: ein Rechner"),
        ):
            (folder / language).mkdir(parents=True, exist_ok=True)
            (folder / language / f"section{number}.html").write_text(page(text), encoding="utf-8")
    return folder


def test_parts_have_whole_sections(tmp_path: Path) -> None:
    rows = parts(handbook(tmp_path), "de-DE")
    assert {part: len(lines) for part, lines in rows.items()} == {part: PARTS.count(part) for part in PARTS}
    assert rows["valid"] == [
        {"id": "section2:0", "document": "Abschnitt 2: ein Rechner", "summary": "Section 2 is about one machine."}
    ]
    with pytest.raises(ValueError, match="--language xx: unknown"):
        parts(tmp_path, "xx")


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg-deb")
def test_from_a_package(tmp_path: Path) -> None:
    (tmp_path / "package" / "DEBIAN").mkdir(parents=True)
    fields = "Package: debian-handbook\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b.c>\nDescription: test\n"
    (tmp_path / "package" / "DEBIAN" / "control").write_text(fields)
    handbook(tmp_path / "package" / "usr/share/doc/debian-handbook/html")
    package, output = tmp_path / "handbook.deb", tmp_path / "pairs"
    subprocess.run(["dpkg-deb", "--build", str(tmp_path / "package"), str(package)], check=True, capture_output=True)
    options = [str(package), str(output), "--language", "de-DE"]
    done = subprocess.run([sys.executable, str(SCRIPT), *options], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[0] == f"7 pairs written to {output / 'train'}.jsonl"
    assert [json.loads(line)["id"] for line in (output / "test.jsonl").read_text().splitlines()] == [
        "section4:0",
        "section8:0",
    ]
