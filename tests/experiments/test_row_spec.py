"""A row of a table: a method and what is done otherwise with it."""

from __future__ import annotations

import re

import pytest
from tiny_causal import model
from tiny_training import settings

from unbottle.experiments.row_spec import RowSpec
from unbottle.method import Method


def test_a_method_alone_is_what_it_was() -> None:
    found = RowSpec.parse("softmax+cpr:20,100+mi")
    assert found.method == Method.parse("softmax+cpr:20,100+mi")
    assert str(found) == "softmax+cpr:20,100+mi"
    assert found.title == "Softmax + CPR:20,100 + Mi"
    assert found.folder_name == "softmax+cpr20-100+mi", "folders of earlier runs are found again"


def test_options(tmp_path) -> None:
    found = RowSpec.parse("softmax+c lr=0.5 form=paper")
    assert str(found) == "softmax+c form=paper lr=0.5", "in one order, however they are given"
    assert found.title == "S + C (form paper, lr 0.5)"
    assert RowSpec.parse(str(found)) == found
    assert found.training_settings(settings(tmp_path, lr=1e-3, eps=1e-4)) == settings(tmp_path, lr=0.5, eps=1e-4)


def test_learning_rates_to_choose_from() -> None:
    found = RowSpec.parse("softmax+c form=steady lr=1e-4,3e-4,1e-4")
    assert [str(each) for each in found.candidates] == [
        "softmax+c form=steady lr=1e-4",
        "softmax+c form=steady lr=3e-4",
    ]
    for text in ("softmax+c form=steady lr=1e-4", "softmax+c", "plain"):
        assert RowSpec.parse(text).candidates == (RowSpec.parse(text),)


def test_the_head_gets_its_options() -> None:
    made = RowSpec.parse("softmax+cr:3 form=paper convention=release lr=0.5").attach_head(model("plain"), form="scaled")
    assert (made.head.config.form, made.head.config.convention) == ("paper", "release")
    assert RowSpec.parse("softmax+cr:3").attach_head(model("plain"), form="scaled").head.config.form == "scaled"


def test_plain() -> None:
    assert RowSpec.parse("plain").method is None
    assert RowSpec.parse("plain").title == "before training"
    assert str(RowSpec.parse("plain")) == "plain"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("softmax+c form", "method 'softmax+c form'"),
        (
            "softmax+c form=",
            "Known: form=scaled|balanced|paper|folded|residual|steady, convention=",
        ),
        ("softmax+c form=../../etc", "'form=../../etc' is not an option"),
        ("softmax+c lr=fast", "'lr=fast' is not an option"),
        ("softmax+c lr=1e-4,", "'lr=1e-4,' is not an option"),
        ("softmax+c eps=1e-4,1e-5", "'eps=1e-4,1e-5' is not an option"),
        ("softmax+c size=3", "'size=3' is not an option"),
        ("plain lr=1", "the plain model has no options"),
        ("", "method ''"),
    ],
)
def test_refusals(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        RowSpec.parse(text)


def test_the_papers_spelling() -> None:
    found = RowSpec.parse("Softmax + CPR:20,100 + Mi  lr=1e-3")
    assert str(found) == "softmax+cpr:20,100+mi lr=1e-3"
