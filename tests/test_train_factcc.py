"""FactCC's architecture is trained on claims, resumed and judged, and the metric reads the result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import train_factcc

from unbottle.eval.metrics.metric import EntailmentOptions
from unbottle.eval.metrics.model_based import entailed

NAMES = ("Boris", "Clara", "Daniel", "Emma")
DOCUMENTS = [
    f"This morning Anna met {name} in Paris at {hour} o'clock. He was not late. They will see {hour + 9} films."
    for name in NAMES
    for hour in range(1, 10)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("factcc")
    for part, documents in (("train", DOCUMENTS), ("valid", DOCUMENTS[:2]), ("test", DOCUMENTS[2:8])):
        rows = [json.dumps({"document": text, "summary": "They met."}) for text in documents]
        (place / f"{part}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    votes = [[{"response": answer}] * 3 for answer in ("yes", "no")]
    sentences = [{"sentence": f"Anna met {name}.", "responses": vote} for name, vote in zip(NAMES, votes, strict=False)]
    people = {"article": DOCUMENTS[0], "summary_sentences": sentences}
    (place / "people.jsonl").write_text(json.dumps(people) + "\n", encoding="utf-8")
    return place


def words(folder: Path, *more: str) -> list[str]:
    given = ["--data", str(folder), "--output", str(folder / "run"), "--people", str(folder / "people.jsonl")]
    return [*given, "--batch", "4", "--tagger", "rules", *more]


def test_training_is_resumed_and_the_metric_reads_the_result(
    folder: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    resumed: list[str | None] = []
    train = train_factcc.Trainer.train

    def spied(self, resume_from_checkpoint=None):
        resumed.append(resume_from_checkpoint and Path(resume_from_checkpoint).name)
        return train(self, resume_from_checkpoint)

    monkeypatch.setattr(train_factcc.Trainer, "train", spied)
    train_factcc.main(train_factcc.arguments(words(folder, "--steps", "2")))
    first = (folder / "run" / "table.md").read_text(encoding="utf-8")
    assert "| as they are " in first
    assert "entity swapped" in first
    assert "| this classifier " in first
    assert f"of {len(DOCUMENTS)} documents fit" in first
    assert first in capsys.readouterr().out
    train_factcc.main(train_factcc.arguments(words(folder, "--steps", "2")))
    assert resumed == [None, "checkpoint-2"]
    assert (folder / "run" / "table.md").read_text(encoding="utf-8") == first
    with pytest.raises(ValueError, match="trained with other settings"):
        train_factcc.main(train_factcc.arguments(words(folder, "--steps", "2", "--seed", "1")))
    with pytest.raises(ValueError, match="--length 5: no claim fits"):
        train_factcc.main(train_factcc.arguments(words(folder, "--length", "5")))
    values, _ = entailed(["Anna met Boris."], DOCUMENTS[:1], EntailmentOptions(model=str(folder / "run")))
    assert values in ([0.0], [1.0])


def test_claims_whose_document_would_be_cut_are_left_out(folder: Path) -> None:
    _, tokenizer = train_factcc.classifier(None, DOCUMENTS, 64)
    some = train_factcc.claims(DOCUMENTS, train_factcc.tagger("rules"))
    lengths = [len(tokenizer(claim.document, claim.text)["input_ids"]) for claim in some]
    limit = sorted(lengths)[len(lengths) // 2]
    rows = train_factcc.fitting(tokenizer, some, limit)
    kept = [claim for claim, length in zip(some, lengths, strict=True) if length <= limit]
    assert 0 < len(rows) < len(some)
    assert rows["labels"] == [int(not claim.supported) for claim in kept]
