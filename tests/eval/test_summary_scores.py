"""Scores of summaries are those of the libraries they name, and no text makes them fail."""

from __future__ import annotations

import json
import math
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.translate.nist_score import corpus_nist
from rouge_score.rouge_scorer import RougeScorer

from unbottle.eval import Examples, SummaryScoreOptions, compare_summaries, in_common, summary_scores, tagger
from unbottle.eval.bootstrap import Resampling
from unbottle.eval.metrics import model_based
from unbottle.eval.metrics.tokens import words as nltk_words
from unbottle.eval.summary_scores import DEFAULT_METRICS, METRICS, select_metrics

PREDICTIONS = [
    "Anna baked cookies and will bring some to Tom tomorrow.",
    "Anna baked cookies and will bring some to Tom tomorrow. Tom says no.",
    "The mayor of Springfield resigned\non Monday after 3 years in office.",
    "no",
    "",
]
REFERENCES = [
    "Anna baked some cookies and brings Tom some of them tomorrow.",
    "Tom and Anna are going to the concert of the mayor.",
    "After three years in office,\nthe mayor of Springfield has resigned.",
    "No one knows.",
    "Nothing was said.",
]
SOURCES = [
    "I baked cookies, said Anna. Do you want some? Sure, said Tom. I'll bring some tomorrow.",
    "Let us go to the concert, said Anna. Fine, said Tom.",
    "The mayor of Springfield, who was in office for three years, has resigned this week.",
    "Nobody knows anything.",
    "",
]
CIDER = [2.162936507203118, 0.5193715305922949, 3.1000017625884113, 1.3653748850394916, 0.0]
RULES = tagger("rules")
FEW = SummaryScoreOptions(resampling=Resampling(rounds=50))


def scored(predictions=PREDICTIONS, references=REFERENCES, sources=SOURCES, **more):
    return summary_scores(predictions, references, sources, **{"tagger": RULES, "options": FEW, **more})


def test_rouge_is_that_of_rouge_score() -> None:
    kinds = {"r1": "rouge1", "r2": "rouge2", "rl": "rougeL"}
    scorer = RougeScorer([*kinds.values()], use_stemmer=True)
    wanted = [scorer.score(true, made) for made, true in zip(PREDICTIONS, REFERENCES, strict=True)]
    found = scored(metrics=[*kinds]).metrics
    for name, kind in kinds.items():
        assert found[name].values == pytest.approx([100 * each[kind].fmeasure for each in wanted])
        assert found[name].value == pytest.approx(20 * sum(each[kind].fmeasure for each in wanted))
        assert "rouge_score" in found[name].implementation
        assert kind in found[name].implementation
    assert found["r1"].value > RougeScorer(["rouge1"]).score(REFERENCES[0], PREDICTIONS[0])["rouge1"].fmeasure


def test_nist_is_that_of_nltk() -> None:
    words = [[nltk_words(text) for text in texts] for texts in (REFERENCES, PREDICTIONS)]
    score = scored(metrics=["nist"]).metrics["nist"]
    assert score.value == pytest.approx(corpus_nist([[text] for text in words[0]], words[1], n=5), abs=1e-12)
    assert score.values is None
    assert score.low is not None
    assert score.low < score.value < score.high


def test_cider_is_that_of_the_caption_evaluation(monkeypatch) -> None:
    """The values are those of pycocoevalcap 1.2, cider.cider.Cider().compute_score, of texts in lower case."""
    monkeypatch.setattr("unbottle.eval.metrics.cider.words", lambda text: text.lower().split())
    score = scored(metrics=["cider"]).metrics["cider"]
    assert score.values == pytest.approx(CIDER, abs=1e-12)
    assert score.value == pytest.approx(1.4295369370846633, abs=1e-12)


def test_cider_called_directly() -> None:
    library = pytest.importorskip("pycocoevalcap.cider.cider", reason="pycocoevalcap is not installed")
    made, true = (
        {i: [" ".join(nltk_words(text))] for i, text in enumerate(texts)} for texts in (PREDICTIONS, REFERENCES)
    )
    mean, _ = library.Cider().compute_score(true, made)
    assert scored(metrics=["cider"]).metrics["cider"].value == pytest.approx(float(mean), abs=1e-12)


def test_names() -> None:
    made = ["I saw Anna and Tom.", "they left.", "then Eve left.", "no"]
    true = ["I saw Anna.", "he left.", "so it goes.", "I saw Tom."]
    found = scored(made, true, None, metrics=["r1p", "p-ratio"]).metrics
    assert found["r1p"].values == [pytest.approx(2 / 3), 0.0, 0.0, 0.0]  # a share; without names, 0
    assert found["r1p"].counted == 4
    assert found["p-ratio"].value == 3 / 2
    assert found["p-ratio"].values == [2.0, None, None, 0.0]


def test_every_metric_names_its_code_and_keeps_its_values() -> None:
    found = scored()
    gives = [name for metric in DEFAULT_METRICS for name in METRICS[metric].outputs]
    assert [*found.metrics] == gives
    for name, score in found.metrics.items():
        assert score.implementation
        assert score.why == ""
        assert (score.values is None) == (name == "nist")
        assert score.values is None or len(score.values) == 5
        if score.values is not None and name != "p-ratio":
            there = [value for value in score.values if value is not None]
            assert score.value == pytest.approx(sum(there) / len(there))
            assert score.counted == len(there)
    json.dumps(found.to_dict(), allow_nan=False)
    assert found.metrics["support"].counted == 3
    assert found.metrics["support"].note == "2 of 5 summaries have no name and no number and are left out"
    assert found.metrics["length"].note == "1 summaries have no word"


def test_intervals_and_seeds() -> None:
    first, again = scored(metrics=["r1"]).metrics["r1"], scored(metrics=["r1"]).metrics["r1"]
    other = scored(metrics=["r1"], options=SummaryScoreOptions(resampling=Resampling(rounds=50, seed=1))).metrics["r1"]
    assert (first.low, first.high) == (again.low, again.high) != (other.low, other.high)
    assert first.low < first.value < first.high
    assert first.rounds == 50
    one = scored(["a b"], ["a b"], ["a"], metrics=["r1"]).metrics["r1"]
    assert (one.value, one.low, one.high, one.rounds) == (pytest.approx(100.0), None, None, 0)


def test_what_can_not_run_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mauve", None)
    found = scored(sources=None, metrics=["r1", "mauve", "copy-rate", "length"]).metrics
    assert found["mauve"].why == (
        "MAUVE needs the package mauve-text, which is not installed: pip install mauve-text (GPLv3)."
    )
    assert found["copy-rate"].why == found["copy-density"].why == "there are no sources to compare with."
    assert found["r1"].value is not None
    assert found["length"].value is not None
    nothing = scored(["they left."], ["he left."], ["x"], metrics=["p-ratio", "support"]).metrics
    assert nothing["support"].value is None
    assert nothing["p-ratio"].why == "no example has anything to measure"


def test_an_error_of_another_package_is_kept_to_its_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    def compute_mauve(**features: object) -> None:
        raise RuntimeError("faiss\nbroke")

    monkeypatch.setitem(sys.modules, "mauve", SimpleNamespace(compute_mauve=compute_mauve))
    monkeypatch.setattr(model_based, "mauve_features", lambda texts, settings: texts)
    found = scored(metrics=["mauve", "length"]).metrics
    assert found["mauve"].why == "RuntimeError: faiss broke"
    assert found["length"].value is not None


def test_mauve_is_asked_for_what_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {}

    def compute_mauve(**features: object) -> SimpleNamespace:
        asked.update(features)
        return SimpleNamespace(mauve=0.25)

    monkeypatch.setitem(sys.modules, "mauve", SimpleNamespace(compute_mauve=compute_mauve))
    monkeypatch.setattr(model_based, "mauve_features", lambda texts, settings: texts)
    monkeypatch.setattr(model_based, "mauve_implementation", lambda settings: "stub")
    score = scored(metrics=["mauve"]).metrics["mauve"]
    assert (score.value, score.low, score.values) == (0.25, None, None)
    assert "no interval" in score.note
    assert asked["p_features"][1] == "Anna baked cookies and will bring some to Tom tomorrow.\nTom says no."
    assert len(asked["p_features"]) == 4  # the empty one is left out
    assert [*asked["q_features"]] == REFERENCES


def test_other_scripts_are_seen_and_said() -> None:
    made, true, source = (
        ["猫は3匹いる。", "Кот спит."],
        ["猫が3匹いる。", "Кошка спит."],
        ["猫は3匹いた。", "Кот не спит."],
    )
    found = scored(made, true, source)
    assert found.metrics["r1"].note.startswith("1 references have no letter a-z or digit")
    assert found.metrics["support"].values == [1.0, None]
    assert found.metrics["length"].values == [6.0, 2.0]
    assert found.metrics["novel-1"].values == [pytest.approx(1 / 6), 0.0]


TEXT = st.lists(st.sampled_from(["Anna", "no", ".", "3", "1,000", "\n", "\u2019s", "猫", "é", ""]), max_size=8).map(
    " ".join
)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(TEXT, TEXT, TEXT), min_size=1, max_size=4))
def test_no_text_makes_it_fail(rows: list[tuple[str, str, str]]) -> None:
    found = summary_scores(
        *zip(*rows, strict=True), tagger=RULES, options=SummaryScoreOptions(resampling=Resampling(rounds=20))
    )
    for name, score in found.metrics.items():
        assert score.why in ("", "no example has anything to measure"), name
        assert (score.value is None) == bool(score.why)
        assert score.value is None or math.isfinite(score.value)
    same = compare_summaries(found, found)
    assert all(each.p in (None, 1.0) for each in same.metrics.values())


def test_two_runs() -> None:
    made = [*PREDICTIONS[:4], "Nothing."] * 8
    many = {"references": REFERENCES * 8, "sources": SOURCES * 8}
    better = scored(REFERENCES * 8, **many, options=SummaryScoreOptions(resampling=Resampling(rounds=200)))
    worse = scored(made, **many, options=SummaryScoreOptions(resampling=Resampling(rounds=200)))
    found = compare_summaries(better, worse)
    assert found.examples == 40
    for name in ("r1", "cider", "nist"):
        each = found.metrics[name]
        assert each.difference == pytest.approx(better.metrics[name].value - worse.metrics[name].value)
        assert each.p == pytest.approx(1 / 201)
        assert 0 < each.low < each.difference < each.high
    assert compare_summaries(worse, better).metrics["r1"].difference == -found.metrics["r1"].difference
    assert "two-sided" in found.to_dict()["test"]
    with pytest.raises(ValueError, match="not with the same ids"):
        compare_summaries(better, scored())


def test_metrics_that_failed_are_not_compared() -> None:
    found = compare_summaries(scored(sources=None), scored(sources=None)).metrics["novel-1"]
    assert (found.difference, found.p, found.why) == (None, None, "there are no sources to compare with.")


def test_the_list_of_metrics() -> None:
    assert select_metrics(["length", "r1", "r1"]) == ("r1", "length")
    assert select_metrics(["all"]) == tuple(METRICS)
    with pytest.raises(ValueError, match=r"metric 'rouge': unknown\. Known: r1, r2, rl, r1p"):
        select_metrics(["rouge"])
    with pytest.raises(ValueError, match="no metrics"):
        select_metrics([])


@pytest.mark.parametrize(
    ("rows", "needed", "said"),
    [
        ([], (), "no predictions to score"),
        ([{"id": 1, "prediction": "a"}, {"id": 1, "prediction": "b"}], (), "occur more than once: 1. Each must"),
        ([{"id": 1, "text": "a"}], (), "row 1: no column 'prediction'. There are: id, text."),
        ([{"prediction": "a"}], ("document",), "row 1: no column 'document'. There are: prediction."),
        ([{"prediction": 3}], (), "example 1: its prediction is 3, and a text is needed."),
        ([{"id": None, "prediction": "a"}], (), "row 1: its 'id' is empty"),
    ],
)
def test_rows_that_are_refused(rows: list[dict], needed: tuple[str, ...], said: str) -> None:
    with pytest.raises(ValueError, match=said.replace(".", r"\.")):
        Examples.of(rows, needed=needed)


def test_numbers_of_texts_that_differ_are_refused() -> None:
    with pytest.raises(ValueError, match="5 predictions and 4 references: expected as many"):
        scored(references=REFERENCES[:4])


def test_rows_may_lack_what_is_not_needed() -> None:
    found = Examples.of(iter([{"prediction": None}, {"prediction": "a", "summary": "b"}]))
    assert found == Examples(ids=("1", "2"), predictions=("", "a"), references=None, sources=None)


def test_in_common() -> None:
    first = Examples.of([{"id": i, "prediction": f"a{i}", "summary": f"s{i}"} for i in (3, 1, 2)])
    second = Examples.of([{"id": str(i), "prediction": f"b{i}", "summary": f"s{i}"} for i in (1, 2, 3, 4)])
    one, other = in_common(first, second)
    assert one.ids == other.ids == ("3", "1", "2")
    assert other.predictions == ("b3", "b1", "b2")
    with pytest.raises(ValueError, match="no id in common: 3, 1, 2,"):
        in_common(first, Examples.of([{"id": 9, "prediction": ""}]))
    with pytest.raises(ValueError, match="different references for id 1"):
        in_common(first, Examples.of([{"id": 1, "prediction": "", "summary": "x"}]))
