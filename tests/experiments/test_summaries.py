"""Summaries on a tiny T5 and a tiny BART: every row, stopped and continued, on pairs of all kinds."""

import json
import math
import random
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from byte_pairs import byte_pairs
from transformers import BertConfig, BertForSequenceClassification, BertModel

from unbottle.cli.main import main
from unbottle.data.sources import SAMPLE, Part
from unbottle.eval import proper_nouns
from unbottle.eval.metrics.metric import MauveOptions, SummaryScoreOptions
from unbottle.eval.proper_nouns import Capitals
from unbottle.experiments import load_experiment, summary_tables, workspace
from unbottle.experiments.corpora import PairCorpus
from unbottle.experiments.paper import COLUMNS, SUMMARIES
from unbottle.experiments.results import ResultRow, Results

pytestmark = pytest.mark.filterwarnings("default:.*left out:UserWarning")
METHODS = load_experiment("summarization").methods
QUICK = ("softmax", "pg", "softmax+ce", "softmax+cepr:20", "softmax+cepr:20+mi")  # that the tests below look at
HEAVY = ("mauve", "factcc")  # need models that are not here
ODD = [
    {"dialogue": "Zoë: 今天下午三点见 😀 Σωκράτης: Ωδή", "summary": "今天下午三点"},  # other scripts
    {"dialogue": "Anna: yes", "summary": "Yes"},  # one word
    {"dialogue": "Boris: " + "and so on " * 60, "summary": "Boris " + "goes on " * 30},  # too long, both of them
]
EMPTY = [{"dialogue": " ", "summary": "Nothing."}, {"dialogue": "Clara: hm", "summary": ""}]


def dialogues(count: int, seed: int) -> list[dict]:
    draw = random.Random(seed)
    names, things = ["Anna", "Boris", "Clara", "Daniel"], ["the river", "a house", "tea", "a cat"]
    found = []
    for _ in range(count):
        one, other, thing = draw.choice(names), draw.choice(names), draw.choice(things)
        text = f"{one}: Did you see {thing}? {other}: Yes, at {draw.randint(1, 12)}."
        found.append({"dialogue": text, "summary": f"It was {other} who saw {thing}."})
    return found


def write(folder, **parts: list[dict]):
    folder.mkdir(parents=True)
    for part, rows in parts.items():
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
        (folder / f"{part}.jsonl").write_text("".join(lines), encoding="utf-8")
    return folder


@pytest.fixture(scope="module", autouse=True)
def _quick():
    """After each row an empty picture is drawn."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unbottle.report.plots.panels", lambda contents, path, **options: path.touch())
        yield


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Under the name of a data set that the paper has."""
    train, test = dialogues(20, seed=0) + ODD + EMPTY, dialogues(3, seed=2) + ODD + EMPTY
    return write(tmp_path_factory.mktemp("data") / "samsum", train=train, valid=dialogues(4, seed=1), test=test)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return tmp_path_factory.mktemp("lab"), tmp_path_factory.mktemp("results")


def reproduce(pairs, folders, *more, name="summarization"):
    work, output = folders
    given = ["--preset", "tiny", "--data", str(pairs), "--work", str(work), "--output", str(output)]
    return main(["reproduce", name, *given, *more])


def results(folders, name="summarization-samsum"):
    return json.loads((folders[1] / name / "results.json").read_text(encoding="utf-8"))


def rows_of(methods):
    return [word for method in methods for word in ("--method", method)]


@pytest.fixture(scope="module")
def done(pairs, folders):
    assert reproduce(pairs, folders, *rows_of(QUICK)) == 0
    return folders


@pytest.mark.parametrize("methods", [QUICK, pytest.param(METHODS, marks=pytest.mark.full)], ids=["some", "all"])
def test_every_row_is_measured_for_both_models(methods, done, pairs) -> None:
    assert reproduce(pairs, done, *rows_of(methods)) == 0
    data = results(done)
    rows = {(row["size"], row["method"]) for row in data["rows"]}
    assert rows == {(s, m) for s in ("T5", "BART") for m in METHODS if m in methods}
    assert len(rows) == len(data["rows"])
    keys = [column.key for column in load_experiment("summarization").columns if column.key not in HEAVY]
    for row in data["rows"]:
        why = row["found"]["not measured"]  # summaries of two words have no three in a row
        assert all(math.isfinite(row["found"][key]) for key in keys if key not in why), row
        assert all("novel" in key or "repetition" in key for key in why), why
        assert row["found"]["summaries"] == 6  # the empty ones are left out
        assert row["found"]["loss"] == pytest.approx(math.log(row["found"]["perplexity"]))
        low, high = row["found"]["intervals"]["r1"]
        assert low <= row["found"]["r1"] <= high
    for size in ("T5", "BART"):
        sizes = {row["method"]: row["found"]["size"] for row in data["rows"] if row["size"] == size}
        assert sizes["softmax"] < sizes["softmax+ce"] < sizes["softmax+cepr:20"] < sizes["softmax+cepr:20+mi"]


def test_the_paper_s_numbers_of_these_data_stand_beside(done) -> None:
    text = (done[1] / "summarization-samsum" / "table.md").read_text(encoding="utf-8")
    models = dict(zip(("T5", "BART"), (part.splitlines() for part in text.split("### ")[1:]), strict=True))
    for size, beside in (("T5", "T5-Small"), ("BART", "BART Base")):
        shown: dict[str, str] = {}
        header: list[str] = []
        for line in models[size]:
            cells = [cell.strip() for cell in line.split("|")[1:-1]]
            header = cells if cells[:1] == ["Method"] else header
            if cells[:1] == ["S + CEPR:20"]:
                shown |= dict(zip(header, cells, strict=True))
        numbers = SUMMARIES["samsum"][beside]["softmax+cepr:20"]
        assert {name: shown[f"paper: {name}"] for name in COLUMNS["summaries"]} == {
            name: f"{number:g}" for name, number in numbers.items()
        }


def test_the_picture_has_a_dot_for_every_row(done, tmp_path, monkeypatch) -> None:
    drawn = {}
    monkeypatch.setattr(
        "unbottle.report.plots.panels",
        lambda contents, path, **options: drawn.update({panel.title: panel for panel in contents}),
    )
    data = results(done)
    rows = [ResultRow.from_json(row) for row in data["rows"]]
    shown = Results(done[1] / "summarization-samsum", load_experiment("summarization"), data["settings"])
    load_experiment("summarization").plot(rows, tmp_path / "plot.png", shown.paper_numbers())
    panel = drawn["loss"]
    assert len(panel.values) == len(rows)
    loss = {(row.size, row.method): row.metrics["padded loss"] for row in rows}
    assert panel.values["BART, S + CE"].mean == pytest.approx(
        100 * (loss["BART", "softmax+ce"] / loss["BART", "softmax"] - 1)
    )
    paper = {method: numbers["Loss"] for method, numbers in SUMMARIES["samsum"]["BART Base"].items()}
    assert panel.paper["paper"]["BART, S + CE"] == pytest.approx(100 * (paper["softmax+ce"] / paper["softmax"] - 1))


def test_all_methods_start_alike_and_see_the_same_pairs_in_the_same_order(done) -> None:
    for size in ("T5", "BART"):
        runs = [done[0] / "rows" / size / name / "run.json" for name in ("softmax-0", "softmax+cepr20+mi-0")]
        one, other = (json.loads(path.read_text(encoding="utf-8")) for path in runs)
        assert one["data"] == other["data"]
        assert one["settings"] | {"output": ""} == other["settings"] | {"output": ""}


def test_what_is_done_is_not_done_again(done, pairs, monkeypatch, capsys) -> None:
    before = results(done)["rows"]
    for name in ("workspace.train_summarize", "summary_tables.write_summaries"):
        monkeypatch.setattr(f"unbottle.experiments.{name}", lambda *args, **options: pytest.fail("done again"))
    assert reproduce(pairs, done, *rows_of(row["method"] for row in before[: len(before) // 2])) == 0
    assert results(done)["rows"] == before
    assert capsys.readouterr().out.splitlines()[-1] == f"Written to {done[1] / 'summarization-samsum'}"


def test_metrics_of_models_are_added_to_rows_that_lack_them(done, pairs, tmp_path, monkeypatch, capsys) -> None:
    """From the summaries that exist; a row that has them is left alone."""
    rows = ("--size", "T5", "--method", "softmax", "--method", "pg")
    features = saved_bert(BertModel, tmp_path / "features")
    classifier = saved_bert(BertForSequenceClassification, tmp_path / "classifier")
    judges = ("--mauve-model", features, "--entailment", classifier)
    folders = (done[0], tmp_path / "results")
    assert reproduce(pairs, folders, *rows) == 0
    before = results(folders)["rows"]
    monkeypatch.setitem(sys.modules, "mauve", None)
    assert reproduce(pairs, folders, *rows, *judges) == 2  # at once
    assert "pip install mauve-text" in capsys.readouterr().err
    monkeypatch.setitem(
        sys.modules, "mauve", SimpleNamespace(compute_mauve=lambda **features: SimpleNamespace(mauve=0.25))
    )
    monkeypatch.setattr("unbottle.eval.metrics.model_based.mauve_implementation", lambda options: "stub")
    monkeypatch.setattr(workspace, "train_summarize", lambda *args, **options: pytest.fail("trained again"))
    assert reproduce(pairs, folders, *rows, *judges) == 0
    after = results(folders)["rows"]
    for one, other in zip(before, after, strict=True):
        found = other["found"]
        kept = {name: value for name, value in found.items() if name not in HEAVY}
        changed = {"models": {}, "intervals": {**found["intervals"]}}
        changed["intervals"].pop("factcc", None)
        assert timeless(kept | changed) == timeless(one["found"])
        assert found["mauve"] == 0.25
        assert 0 <= found["factcc"] <= 1
        assert found["models"] == {"mauve": "features", "factcc": "classifier"}
    text = (folders[1] / "summarization-samsum" / "table.md").read_text(encoding="utf-8")
    assert "FactCC by classifier. MAUVE by features. Names by rules: capital letters" in text
    assert "--data samsum --mauve-model features --entailment classifier`" in text
    monkeypatch.setattr(summary_tables, "score_examples", lambda *args, **options: pytest.fail("scored again"))
    assert reproduce(pairs, folders, *rows, *judges) == 0
    assert reproduce(pairs, folders, *judges, name="t5-size-curve") == 2
    assert "only for summarization" in capsys.readouterr().err


def test_a_tagger_that_is_named_is_used_and_rows_of_another_are_measured_again(
    done, pairs, tmp_path, monkeypatch, capsys
) -> None:
    class Everything(Capitals):
        description = "a test, which calls every word a name"

        def __call__(self, text: str) -> list[tuple[int, int]]:
            return [match.span() for match in re.finditer(r"\w+", text)]

    rows, folders = ("--size", "T5", "--method", "softmax"), (done[0], tmp_path)
    assert reproduce(pairs, folders, *rows) == 0
    (before,) = results(folders)["rows"]
    assert reproduce(pairs, folders, *rows, "--tagger", "spacy:no/such/folder") == 2
    assert "no spaCy" in capsys.readouterr().err
    monkeypatch.setattr(proper_nouns, "Spacy", lambda model: Everything())
    assert reproduce(pairs, folders, *rows, "--tagger", "spacy:anywhere") == 0
    (row,) = results(folders)["rows"]
    assert row["found"]["tagger"] == Everything.description
    assert row["found"]["p-ratio"] != before["found"]["p-ratio"]
    out = capsys.readouterr().out
    assert f"Names by {Everything.description}." in out
    assert "--tagger spacy:anywhere`" in out
    assert reproduce(pairs, folders, "--tagger", "rules", name="t5-size-curve") == 2
    assert "only for table3 and summarization" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "weights", "message"),
    [
        ("--mauve-model", False, "MAUVE model '.*' cannot be loaded"),
        ("--entailment", False, "entailment model '.*' cannot be loaded"),
        ("--entailment", True, "has no trained classifier: its file lacks"),
    ],
)
def test_models_that_cannot_be_used_are_refused_at_once(
    option, weights, message, pairs, tmp_path, monkeypatch, capsys
) -> None:
    monkeypatch.setitem(sys.modules, "mauve", SimpleNamespace(compute_mauve=None))
    folders = (tmp_path / "work", tmp_path / "results")
    given = saved_bert(BertModel, tmp_path / "bert")
    if not weights:
        (tmp_path / "bert" / "model.safetensors").unlink()
    assert reproduce(pairs, folders, option, given) == 2
    assert re.search(message, capsys.readouterr().err)
    assert not folders[0].exists()


def test_models_have_short_names(tmp_path) -> None:
    def named(model: str) -> str:
        return summary_tables.models_of(SummaryScoreOptions(mauve=MauveOptions(model=model)))["mauve"]

    (tmp_path / "cpr" / "model").mkdir(parents=True)
    assert [named(str(tmp_path / "cpr")), named(str(tmp_path / "cpr" / "model"))] == ["cpr", "cpr"]
    assert [named("gpt2-large"), named("owner/model")] == ["gpt2-large", "owner/model"]


def saved_bert(architecture, folder: Path) -> str:
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    labels = {0: "CORRECT", 1: "INCORRECT"}
    architecture(BertConfig(vocab_size=300, pad_token_id=0, id2label=labels, **sizes)).save_pretrained(folder)
    byte_pairs().save_pretrained(folder)
    return str(folder)


def test_the_curve_takes_the_same_models_and_a_wider_one(done, pairs, capsys) -> None:
    assert reproduce(pairs, done, "--method", "softmax", "--method", "ps", name="t5-size-curve") == 0
    rows = results(done, "t5-size-curve-samsum")["rows"]
    assert [(row["size"], row["method"]) for row in rows] == [
        ("T5", "softmax"), ("T5", "ps"), ("T5 wide", "softmax"), ("T5 wide", "ps"),
    ]  # fmt: skip
    table = {(row["size"], row["method"]): row["found"] for row in results(done)["rows"]}
    assert rows[0]["found"]["loss"] == table["T5", "softmax"]["loss"]
    assert rows[2]["found"]["size"] > rows[0]["found"]["size"]
    assert "paper: Loss" in capsys.readouterr().out
    assert (done[1] / "t5-size-curve-samsum" / "plot.png").exists()


def test_a_stopped_run_keeps_its_rows_and_its_summaries(done, pairs, tmp_path, monkeypatch) -> None:
    """Killed while the second of two rows writes: the first is kept, and so is the batch that was written."""
    whole = {row["method"]: row["found"] for row in results(done)["rows"] if row["size"] == "T5"}
    write, folders = summary_tables.write_summaries, (tmp_path / "work", tmp_path / "results")
    kept = tmp_path / "work" / "rows" / "T5" / "pg-0" / "predictions.jsonl"

    def stopped(model, *args, **options):
        def report(done: float, total: float, text: str) -> None:
            if done == 5 and str(model.head.config.method) == "pg":
                raise KeyboardInterrupt

        write(model, *args, **options | {"report": report})

    monkeypatch.setattr(summary_tables, "write_summaries", stopped)
    rows = ("--size", "T5", "--method", "softmax", "--method", "pg")
    assert reproduce(pairs, folders, *rows) == 130
    assert [row["method"] for row in results(folders)["rows"]] == ["softmax"]
    assert len(kept.read_text(encoding="utf-8").splitlines()) == 5
    monkeypatch.setattr(summary_tables, "write_summaries", write)
    assert reproduce(pairs, folders, *rows) == 0
    again = {row["method"]: row["found"] for row in results(folders)["rows"]}
    for method in ("softmax", "pg"):
        assert timeless(again[method]) == timeless(whole[method])  # as if nothing had happened


def timeless(found: dict) -> dict:
    return {name: value for name, value in found.items() if name not in ("time", "milliseconds")}


def test_seeds_differ_in_their_samples(done, pairs, tmp_path) -> None:
    rows = ("--size", "BART", "--method", "softmax", "--seeds", "2")
    assert reproduce(pairs, (done[0], tmp_path), *rows) == 0
    one, other = (row["found"] for row in results((None, tmp_path))["rows"])
    assert one["loss"] != other["loss"]
    assert "± " in (tmp_path / "summarization-samsum" / "table.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("given", [("train",), ("train", "valid"), ("train", "test")])
def test_missing_parts_are_cut_off_the_end_of_the_training_part(given, tmp_path, monkeypatch) -> None:
    rows = [{"document": row["dialogue"], "summary": row["summary"]} for row in dialogues(100, seed=3)]
    folder = write(tmp_path / "data", train=rows, other=rows[:5])
    files = [Part(str(folder / name)) for name in ("train.jsonl", "other.jsonl")]
    monkeypatch.setattr("unbottle.experiments.corpora.parts_of", lambda *_, **__: dict(zip(given, files, strict=False)))
    corpus = PairCorpus.read("data set on the hub")
    cut = [part for part in ("train", "valid", "test") if part not in given[1:]]
    documents = {part: getattr(corpus, part)["document"][:] for part in cut}
    assert [each for part in cut for each in documents[part]] == [row["document"] for row in rows]
    assert [len(documents[part]) for part in cut[1:]] == [2] * len(cut[1:])
    assert all(len(getattr(corpus, part)) == 5 for part in given[1:])


def test_a_file_too_short_to_cut(tmp_path) -> None:
    rows = [{"document": row["dialogue"], "summary": row["summary"]} for row in dialogues(20, seed=3)]
    with pytest.raises(ValueError, match="20 pairs are too few to hold out 2%"):
        PairCorpus.read(str(write(tmp_path / "few", mine=rows) / "mine.jsonl"))


def test_the_sample_has_three_parts(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    corpus = PairCorpus.read(SAMPLE)
    ids = [row for part in (corpus.train, corpus.valid, corpus.test) for row in part["id"]]
    assert len(ids) == len({*ids}) > 0


TWICE = [row | {"id": "a"} for row in dialogues(2, seed=4)]


@pytest.mark.parametrize(
    ("test", "message"),
    [
        (TWICE, "test.jsonl: rows 1 and 2 have the same id 'a'"),
        ([{"document": "a", "summary": "b"}], "test.jsonl: no column 'dialogue'. There are: document, summary."),
        (EMPTY, "test.jsonl: there is no pair of a document and a summary in it."),
    ],
)
def test_data_that_are_refused_are_refused_at_once(test, message, tmp_path, capsys) -> None:
    """Before anything is trained, though only the last step would need them."""
    folder = write(tmp_path / "samsum", train=dialogues(9, seed=0), valid=dialogues(2, seed=1), test=test)
    assert reproduce(folder, (tmp_path / "work", tmp_path / "results")) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "work" / "base").exists()


def test_another_data_set_in_the_same_folder_is_refused(done, tmp_path, capsys) -> None:
    other = write(tmp_path / "xsum", train=dialogues(9, seed=0), valid=dialogues(2, seed=1), test=dialogues(2, seed=2))
    assert reproduce(other, done) == 2
    assert "made with another preset or text" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--size", "GPT-2"], "size 'GPT-2': not a backbone of preset cpu. Known: T5, BART"),
        (["--method", "mos"], "method 'mos': not a row of summarization"),
        (["--preset", "huge"], "preset 'huge': unknown. Known: paper, cpu, tiny."),
        (["--data", "nowhere.jsonl"], "nowhere.jsonl"),
    ],
)
def test_refusals(given, message, capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "summarization", *given]) == 2
    assert message in capsys.readouterr().err


def test_dry_run(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    given = ["--preset", "paper", "--data", "booksum", "--size", "T5-Small", "--dry-run"]
    assert main(["reproduce", "summarization", *given]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["sizes"] == ["T5-Small"]
    assert told["methods"] == list(METHODS)
    assert told["work"] == "runs/reproduce-paper-booksum"
    assert told["preset"]["decoding"]["top_k"] == 10
    assert not list(tmp_path.iterdir())
