"""An entailment checkpoint is read, asked and, where it cannot be, refused with a reason."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from byte_pairs import byte_pairs
from transformers import BertConfig, BertForSequenceClassification, BertModel, GPT2Config, GPT2Model

from unbottle.eval import SummaryScoreOptions, summary_scores, tagger
from unbottle.eval.metrics import model_based
from unbottle.eval.metrics.metric import EntailmentOptions, MauveOptions
from unbottle.eval.metrics.model_based import entailed, label_of, mauve_features

SOURCES = ["The king met Anna in Paris.", "", "Anna " * 100]
SUMMARIES = ["The king met Anna. The queen said no.", "Anna.", "..."]


def config(**more: object) -> BertConfig:
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    return BertConfig(vocab_size=300, max_position_embeddings=32, pad_token_id=0, **small, **more)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("checkpoint")
    torch.manual_seed(0)
    model = BertForSequenceClassification(config(id2label={0: "CORRECT", 1: "INCORRECT"}))
    model.bert.embeddings.word_embeddings.weight.data *= 100  # so that it answers this and that
    model.save_pretrained(place)
    byte_pairs().save_pretrained(place)
    return place


def test_sentence_by_sentence(folder: Path) -> None:
    """Batches and padding change nothing, and the share is that of sentences with the label."""
    reported = []
    found, note = entailed(
        SUMMARIES, SOURCES, EntailmentOptions(model=str(folder)), lambda *done: reported.append(done)
    )
    alone = [entailed([text], [source], EntailmentOptions(model=str(folder), batch=1))[0][0] for text, source in zip(
        ["The king met Anna.", "The queen said no.", "Anna."], [SOURCES[0], SOURCES[0], ""], strict=True)]  # fmt: skip
    assert found == [(alone[0] + alone[1]) / 2, alone[2], None]
    assert reported == [(3, 3)]
    assert note == ""
    other, _ = entailed(SUMMARIES, SOURCES, EntailmentOptions(model=str(folder), label="incorrect"))
    assert other == [1 - found[0], 1 - found[1], None]
    assert entailed(SUMMARIES, SOURCES, EntailmentOptions(model=str(folder), label="1"))[0] == other


def test_long_texts_are_cut_and_said(folder: Path) -> None:
    found, note = entailed(["Anna.", "Anna " * 99], [SOURCES[2], SOURCES[2]], EntailmentOptions(model=str(folder)))
    assert note == "2 sources fill all 32 tokens: longer ones are cut"
    assert None not in found


def test_labels() -> None:
    nli = config(id2label={0: "contradiction", 1: "neutral", 2: "Entailment"})
    assert label_of(nli, EntailmentOptions()) == 2
    assert label_of(nli, EntailmentOptions(label="NEUTRAL")) == 1
    for wrong in (config(), config(id2label={0: "correct", 1: "entailment"})):
        with pytest.raises(ValueError, match="which one means that the source supports the sentence"):
            label_of(wrong, EntailmentOptions())
    with pytest.raises(ValueError, match="There are: 0 contradiction, 1 neutral, 2 Entailment"):
        label_of(nli, EntailmentOptions(label="yes"))


def test_no_trained_classifier(tmp_path: Path) -> None:
    BertModel(config()).save_pretrained(tmp_path)
    byte_pairs().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="has no trained classifier: its file lacks classifier"):
        entailed(["a"], ["a"], EntailmentOptions(model=str(tmp_path)))


def test_in_scores(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = summary_scores(
        SUMMARIES,
        None,
        SOURCES,
        metrics=["factcc", "length"],
        tagger=tagger("rules"),
        options=SummaryScoreOptions(entailment=EntailmentOptions(model=str(folder))),
    )
    assert found.metrics["factcc"].counted == 2
    assert str(folder) in found.metrics["factcc"].implementation
    nowhere = SummaryScoreOptions(entailment=EntailmentOptions(model=str(tmp_path / "nowhere")))
    scores = summary_scores(SUMMARIES, None, SOURCES, metrics=["factcc"], tagger=tagger("rules"), options=nowhere)
    assert "nowhere' cannot be loaded (" in scores.metrics["factcc"].why


def test_a_checkpoint_is_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="cannot be loaded"):
        model_based.load_classifier(str(tmp_path))
    misses = model_based._attempt.cache_info().misses
    with pytest.raises(ValueError, match="cannot be loaded"):
        model_based.load_classifier(str(tmp_path))
    assert model_based._attempt.cache_info().misses == misses


def test_features_for_mauve(tmp_path: Path) -> None:
    """The last hidden state of the last token, whatever stands beside the text in the list."""
    torch.manual_seed(0)
    GPT2Model(GPT2Config(vocab_size=300, n_embd=16, n_layer=1, n_head=2, n_positions=32)).save_pretrained(tmp_path)
    byte_pairs().save_pretrained(tmp_path)
    settings = MauveOptions(model=str(tmp_path))
    both, one = mauve_features(["Anna", "the king " * 50], settings), mauve_features(["Anna"], settings)
    assert both.shape == (2, 16)
    assert both[0] == pytest.approx(one[0])
    with pytest.raises(ValueError, match="MAUVE model 'no/where/' cannot be loaded"):
        mauve_features(["a"], MauveOptions(model="no/where/"))


def test_references_are_read_once_for_several_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[str, ...]] = []
    monkeypatch.setattr(model_based, "mauve_features", lambda texts, options: read.append(tuple(texts)) or texts)
    monkeypatch.setattr(model_based, "load_mauve", lambda: lambda **features: SimpleNamespace(mauve=0.5))
    model_based._reference_features.cache_clear()
    references = ["One true text.", "Another."]
    for texts in (["A.", "B."], ["C.", "D."]):
        assert model_based.mauve(texts, references, MauveOptions(model="any")) == 0.5
    model_based.mauve(["A.", "B."], references, MauveOptions(model="other"))
    assert read.count(("One true text.", "Another.")) == 2
    assert read.count(("A.", "B.")) == 2
