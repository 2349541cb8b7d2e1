"""Pages: nothing from elsewhere, nothing that a model says becomes markup."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from self_contained import read_page

from unbottle.report.page import (
    Dot,
    Section,
    dot_chart,
    explained,
    in_order,
    markdown_blocks,
    page,
    render,
    tip,
    visible,
)
from unbottle.report.palette import PARTITIONS, SERIES, colour_of
from unbottle.report.sections import (
    changed_words,
    document_section,
    order_sections,
    perplexity_section,
    sentences_section,
    summary_sections,
    whole_words,
    words_section,
)
from unbottle.tables import Table

ATTACK = "<script>alert(1)</script>\"'&"


def table(header: list[str], rows: list[list[str]], best: tuple[tuple[int, int], ...] = ()) -> str:
    return render("widgets.html", "table", {"table": Table(header, rows, best)})


def test_whatever_is_shown_is_escaped(tmp_path: Path) -> None:
    word = {"text": ATTACK, "probability": 0.5, "partition": ATTACK}
    column = {"model": ATTACK, "method": ATTACK, "prompt": ATTACK, "words": [word], "masses": {ATTACK: 1.0}}
    row = {
        "options": [ATTACK],
        "orders": 2,
        "mass": 1,
        "repeats": True,
        "evenness": 1,
        "winner": ATTACK,
        "winner_changes": 0,
    }
    run = {"perplexity": 2.0, "loss": 1.0, "k": 1, "groups": {ATTACK: {"perplexity": 2.0, "loss": 1.0, "share": 1.0}}}
    runs = {ATTACK: {"examples": 1, "metrics": {ATTACK: {"value": 1.0, "low": 0.5, "high": 1.5}}}}
    text = {"read": [ATTACK], "tokens": [ATTACK], "partitions": [ATTACK], "probabilities": {"cpr": [0.5]}}
    (tmp_path / "a.md").write_text(f"## {ATTACK}\n\n| a |\n| - |\n| {ATTACK} |\n\n{ATTACK}")
    sections = [
        words_section(ATTACK, [column]),
        *order_sections({ATTACK: {"rows": [row]}}),
        perplexity_section(ATTACK, {ATTACK: run}),
        *summary_sections({"runs": runs, "notes": [ATTACK]}),
        sentences_section({"gained": text}),
        document_section(ATTACK, tmp_path / "a.md", tmp_path / "none.png"),
    ]
    html = page(ATTACK, sections)
    assert "script" not in read_page(html).tags
    assert "<script" not in html
    assert html.count("&lt;script&gt;") > 20


def test_a_page_is_readable_on_a_phone_and_at_night() -> None:
    html = page("t", [Section(title="s", body=table(["a"], [["b"]]))])
    read_page(html)
    assert '<meta name="viewport" content="width=device-width' in html
    assert "@media (prefers-color-scheme: dark)" in html
    used = {*re.findall(r"var\(--(ub-[\w-]+)\)", html + "".join(colour.css for colour in SERIES))}
    colours = re.findall(r"--(ub-[\w-]+): #", html)
    assert used - {"ub-colour", "ub-share"} <= {*colours}
    assert all(colours.count(name) == 2 for name in colours)  # light and dark


def contrast(one: str, other: str) -> float:
    """Of WCAG 2."""

    def luminance(colour: str) -> float:
        parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("name", [*PARTITIONS, "V2", "R3", "custom"])
def test_colours_can_be_read_as_text(name: str) -> None:
    assert contrast(colour_of(name).light, "#f3f5f8") >= 4.5  # the backgrounds of running text
    assert contrast(colour_of(name).dark, "#1a2029") >= 4.5


def test_every_partition_has_a_colour_of_its_own_or_a_name_beside_it() -> None:
    named = [colour for name, colour in PARTITIONS.items() if name != "softmax"]
    assert len({colour.light for colour in named}) == len({colour.dark for colour in named}) == len(named)
    assert colour_of("V3").meaning == "softmax 3 of the mixture"
    assert colour_of("R3") not in named
    assert colour_of("W").meaning == "another part of this method"


def test_numbers_stand_right_and_the_best_is_emphasized() -> None:
    html = table(["model", "perplexity", "words"], [["a", "1.5 ± 0.1", "x"], ["b", "2", "y"]], ((0, 1),))
    assert '<td class="number best">1.5 ± 0.1</td>' in html
    assert '<th class="number">perplexity</th>' in html
    assert "<td>x</td>" in html


def test_markdown_of_our_own_tables(tmp_path: Path) -> None:
    text = "### gpt2\n\n| measure | ms |\n| ------- | -: |\n| loss | 1.5 |\n\nMeasured with `bench`\ntwice."
    assert [kind for kind, _ in markdown_blocks(text)] == ["heading", "table", "paragraph"]
    (tmp_path / "a.md").write_text(text)
    html = document_section("t", tmp_path / "a.md", tmp_path / "none.png").body
    assert "<h3>gpt2</h3>" in html
    assert '<td class="number">1.5</td>' in html
    assert "---" not in html
    assert '<p class="quiet">Measured with <code>bench</code> twice.</p>' in html


def test_distances_on_an_axis_compare() -> None:
    """Differences as differences: the axis ends at the values, and a logarithmic one has equal ratios."""
    dots = [Dot(label=name, value=value, text=name) for name, value in (("a", 4.0), ("b", 8.0), ("c", 16.0))]
    chart = dot_chart(dots, reference=2.0, caption="", log=True)
    places = [row["place"] for row in chart["rows"]]
    steps = [after - before for before, after in zip([chart["reference"], *places], places, strict=False)]
    assert steps == pytest.approx([steps[0]] * 3, abs=0.05)
    assert (chart["reference"], places[-1]) == (2, 98)


def test_an_interval_is_drawn_around_its_dot() -> None:
    chart = dot_chart([Dot(label="a", value=-0.1, text="-10%", low=-0.2, high=0.1)], reference=0.0, caption=ATTACK)
    html = render("widgets.html", "dot_chart", {"chart": chart})
    assert 'class="ub-range" style="left: 2.0%; right: 2.0%"' in html
    assert 'class="ub-dot" style="left: 34.0%"' in html
    assert 'class="ub-mark" style="left: 66.0%"' in html
    assert "<script" not in html


def test_whole_words_are_compared() -> None:
    """A word is a run of pieces; a mark is none. Words that gain come first, of those that lose the reverse."""
    tokens = [" un", "bottle", ".", " See", "\n", " the"]
    assert whole_words(tokens) == [(0, 2), (3, 4), (5, 6)]
    probabilities = {"softmax": [0.5, 0.2, 0.1, 0.8, 0.1, 0.4], "cpr": [0.5, 0.8, 0.9, 0.1, 0.2, 0.5]}
    text = {"tokens": tokens, "partitions": ["PD", "V", "V", "R1", "V", "C"], "probabilities": probabilities}
    gained = changed_words(text, gained=True)
    assert [word["text"] for word in gained] == ["unbottle", "the"]
    assert gained[0] == {"text": "unbottle", "partition": "PD", "before": 0.1, "after": 0.4}
    assert [word["text"] for word in changed_words(text, gained=False)] == ["See"]


def test_spaces_are_not_underlined() -> None:
    tokens = [{"text": "\n  a b ", "partition": "V", "tip": "t"}, {"text": "\n", "partition": "V", "tip": "t"}]
    html = render("widgets.html", "running_text", {"start": "x", "tokens": tokens})
    assert re.sub(r"<[^>]+>", "", html) == "x\n  a b \n"
    assert re.findall(r'class="token"[^>]*>([^<]*)<', html) == ["a b"]


def test_a_difference_is_drawn_from_its_reference() -> None:
    chart = dot_chart(
        [Dot(label="a", value=1.0, text="1"), Dot(label="b", value=-1.0, text="-1")], reference=0.0, caption=""
    )
    html = render("widgets.html", "dot_chart", {"chart": chart})
    assert re.findall(r'ub-stem" style="left: ([\d.]+)%; right: ([\d.]+)%"', html) == [("50.0", "2.0"), ("2.0", "50.0")]


def test_jargon_explains_itself() -> None:
    assert tip("CPR", 'a "head"') == '<abbr tabindex="0" title="a &#34;head&#34;">CPR</abbr>'
    assert "<abbr" in table([tip("CPR", "a head")], [["1"]])
    assert 'title="words of the context, with local embeddings">PD' in render(
        "widgets.html", "chip", {"partition": "PD"}
    )


def test_a_method_explains_itself() -> None:
    text = explained("Softmax + CPR:20,100 + Mi")
    assert [part.split(":")[0] for part in text.split("; ")] == ["Softmax", "C", "P", "R", "Mi"]
    assert explained("no head") == ""


def test_a_plain_model_needs_no_labels() -> None:
    word = {"text": "a", "probability": 0.5, "partition": "softmax"}
    column = {"model": "m", "method": "no head", "prompt": "p", "words": [word], "masses": {"softmax": 1.0}}
    html = render("widgets.html", "next_words", {"columns": [column]})
    assert "ub-chip" not in html
    assert "All words" not in html


def test_a_picture_is_inside(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG123")
    (tmp_path / "a.md").write_text("text")
    html = page("t", [document_section("s", tmp_path / "a.md", tmp_path / "a.png")])
    assert "img" in read_page(html).tags
    assert "data:image/png;base64,iVBORzEyMw==" in html


def test_what_has_no_shape_is_made_visible() -> None:
    assert re.sub(r"<[^>]+>", "", visible(" a\n\t\x07")) == "␣a↵⇥\\u0007"
    assert "(nothing)" in visible("")


def test_a_legend_names_what_occurs_in_one_order() -> None:
    assert in_order(name for name in ("PD", "V", "X", "PD")) == ["V", "PD", "X"]
