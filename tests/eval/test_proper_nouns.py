"""Which words are proper nouns, and who says so."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unbottle.eval.proper_nouns import Capitals, Identifiers, tagger, words_of


def found(text: str) -> list[str]:
    return words_of(text, Capitals()(text))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("The king met Anna in Paris .", "Anna Paris"),
        ("Anna met the king . The king liked Anna .", "Anna Anna"),  # the second one tells about the first
        ("Queen songs are long . A queen sang .", ""),  # a capital at the start means nothing
        ("Robert Boulter is an actor . However , I like the actor .", "Robert Boulter"),
        ("a well @-@ known Anglo @-@ Saxon king , born in May 1900 @,@ 000", "Anglo Saxon May"),
        ("\n = Robert Boulter = \n\n He met Mr. Smith . We met St . Paul .", "Robert Boulter Mr Smith St Paul"),
        ('She said , " Everything is fine . " NATO agreed .', "NATO"),
        ("In the evening The Beatles sang . I did not .", "Beatles"),
        (
            "Obama's house, O'Brien's garden",
            "O Brien",
        ),  # the first word of a text, seen once, is not known to be a name
        ("Ünal met Élodie; élan", "Élodie"),
        ("Winter Olympics were cold . In winter it is .", "Olympics"),  # written small elsewhere: not a name
        ("", ""),
        (" \n 12 . @,@", ""),
    ],
)
def test_rules(text: str, names: str) -> None:
    assert found(text) == names.split()


@given(st.text(alphabet="aB .\n@-Éß1'\"", max_size=40))
def test_spans_are_words_in_order(text: str) -> None:
    spans = Capitals()(text)
    assert spans == sorted(set(spans))
    for first, end in spans:
        assert text[first].isupper()
        assert text[first:end].isalnum()


def test_auto_says_what_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    monkeypatch.setitem(sys.modules, "nltk", None)
    taken = tagger()
    assert taken.name == "rules"
    assert "unbottle.eval.proper_nouns" in taken.description


@pytest.mark.parametrize("name", ["spacy", "nltk", "spacy:/nowhere"])
def test_missing_ones_are_refused_by_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import nltk

    monkeypatch.setitem(sys.modules, "spacy", None)
    monkeypatch.setattr(nltk.data, "path", [])
    with pytest.raises(ValueError, match=r"pip install .* or take --tagger rules"):
        tagger(name)


def test_a_folder_is_no_name_of_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder `spacy` is the model in it, not the installed package."""
    loaded = []

    def load(model: object, exclude: list[str]) -> types.SimpleNamespace:
        loaded.append(model)
        return types.SimpleNamespace(meta={"lang": "en", "name": "small", "version": "1"})

    monkeypatch.setitem(sys.modules, "spacy", types.SimpleNamespace(load=load, __version__="3"))
    monkeypatch.chdir(tmp_path)
    Path("spacy").mkdir()
    assert tagger("spacy:spacy").description == "spacy 3, model en_small 1: PROPN"
    assert loaded == [Path("spacy")]


def test_unknown() -> None:
    with pytest.raises(ValueError, match=r"tagger 'magic': unknown\. Known: auto, spacy"):
        tagger("magic")


def test_nltk_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    import nltk

    monkeypatch.setattr(nltk.data, "find", lambda name: name)
    monkeypatch.setattr(nltk, "pos_tag", lambda words: [(w, "NNP" if w in ("Anna", "Paris") else "NN") for w in words])
    taken = tagger("nltk")
    text = "Anna's house, in Paris."
    assert words_of(text, taken(text)) == ["Anna", "Paris"]
    assert nltk.__version__ in taken.description


def test_spacy_tags() -> None:
    spacy = pytest.importorskip("spacy")
    if not spacy.util.is_package("en_core_web_sm"):
        pytest.skip("needs en_core_web_sm")
    text = "The king met Anna in Paris."
    assert words_of(text, tagger("spacy")(text)) == ["Anna", "Paris"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def read_all(path):", ["read_all"]),
        ("self.close()", ["self", "close"]),
        ("total += count2", ["total", "count2"]),
        ("if value == other:", []),
        ("x = values[0]", ["x", "values"]),
        ("import os as system", ["os", "system"]),
        ("class Reader: pass", ["Reader"]),
        ("# The reader closes the file.", []),
        ("return HTTPError", ["HTTPError"]),
        ("for(i) in range(3): print(None)", ["range", "print"]),
        ("# See also: other things (and more).", []),
        ("été_1", ["été_1"]),
    ],
)
def test_identifiers(text: str, names: list[str]) -> None:
    assert words_of(text, Identifiers()(text)) == names


def test_identifiers_by_name() -> None:
    assert tagger("identifiers").description.startswith("identifiers: ")
