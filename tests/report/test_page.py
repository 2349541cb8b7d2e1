"""Pages: nothing from elsewhere, nothing that a model says becomes markup."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from self_contained import read_page

from unbottle.report.page import Section, markdown, page, paragraph, picture, preformatted, table
from unbottle.report.palette import PARTITIONS, SERIES, colour, legend
from unbottle.report.widgets import bars, next_words, running_text, shown

ATTACK = "<script>alert(1)</script>\"'&"


def test_whatever_is_shown_is_escaped() -> None:
    word = {"text": ATTACK, "probability": 0.5, "partition": ATTACK}
    body = (
        paragraph(ATTACK),
        preformatted(ATTACK),
        table([ATTACK], [[ATTACK]]),
        legend([ATTACK]),
        next_words(ATTACK, [word]),
        running_text([ATTACK], [ATTACK], [ATTACK], [ATTACK]),
        bars({ATTACK: {ATTACK: [1.0]}}, label=ATTACK),
        *markdown(f"## {ATTACK}\n\n| a |\n| - |\n| {ATTACK} |\n\n{ATTACK}"),
    )
    made = page(ATTACK, [Section(title=ATTACK, body=body)], lead=ATTACK)
    assert "script" not in read_page(made).tags
    assert "<script" not in made


def test_a_page_is_readable_on_a_phone_and_at_night() -> None:
    made = page("t", [])
    read_page(made)
    assert '<meta name="viewport" content="width=device-width' in made
    assert "@media (prefers-color-scheme: dark)" in made
    named = {*re.findall(r"var\(--(\w+)\)", made + "".join(SERIES))}
    for part in made.split("@media", 1):  # light, and dark
        assert named <= {*re.findall(r"--(\w+):", part)}


def test_numbers_stand_right_and_the_best_is_set_off() -> None:
    made = table(["model", "perplexity", "words"], [["a", "1.5 ± 0.1", "x"], ["b", "2", "y"]], [(0, 1)])
    assert '<td class="number best">1.5 ± 0.1</td>' in made
    assert '<th class="number">perplexity</th>' in made
    assert "<td>x</td>" in made


def test_markdown_of_our_own_tables() -> None:
    pieces = markdown("### gpt2\n\n| measure | ms |\n| ------- | -: |\n| loss | 1.5 |\n\nMeasured with `bench`\ntwice.")
    assert pieces[0] == "<h3>gpt2</h3>"
    assert '<td class="number">1.5</td>' in pieces[1]
    assert "---" not in pieces[1]
    assert pieces[2] == '<p class="quiet">Measured with <code>bench</code> twice.</p>'


def test_lengths_of_bars_compare() -> None:
    made = bars({"": {"one": [1.0], "two": [1.0, 3.0]}}, label="loss")
    widths = [float(width) for width in re.findall(r'<rect [^>]*width="([\d.]+)"', made)]
    assert widths[1] == pytest.approx(2 * widths[0], abs=0.2)
    assert made.count("<circle") == 2  # only where there are several values


def test_a_picture_is_inside(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG123")
    made = page("t", [Section(title="s", body=(picture(tmp_path / "a.png", "a plot"),))])
    assert "img" in read_page(made).tags
    assert "data:image/png;base64,iVBORzEyMw==" in made


def test_what_can_not_be_seen_is_written_out() -> None:
    assert [shown(text) for text in (" king", "\n", "  ", "a\tb")] == [" king", r"\n", "␣␣", r"a\tb"]


def test_a_legend_names_what_occurs() -> None:
    made = legend(name for name in ("PD", "V", "PD", "X"))
    assert [made.index(name) for name in ("V: ", "PD: ", "X: ")] == sorted(
        made.index(name) for name in ("V: ", "PD: ", "X: ")
    )
    assert "R1" not in made


def test_every_partition_of_a_method_has_a_colour() -> None:
    assert {colour(name) for name in ("V", "PD", "R1", "R2")} == {
        PARTITIONS[name][0] for name in ("V", "PD", "R1", "R2")
    }
    assert len({colour(name) for name in ("V", "PD", "R1", "R2")}) == 4
