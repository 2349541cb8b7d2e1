"""Every experiment runs on a tiny model, row by row, and goes on where it was stopped."""

import json
import random

import pytest

from unbottle.cli.main import main
from unbottle.experiments import load_experiment
from unbottle.experiments.presets import PRESETS
from unbottle.files import folder_lock

ROWS = {
    "table1": ["softmax", "softmax+cpr:20,100+mi"],
    "table2": ["softmax+mi", "softmax+wbwr:100+mi"],
    "table3": ["softmax", "ps+mi"],
    "table4": ["softmax+mi", "softmax+cpr:20,100+mi"],
    "analogy": ["softmax+mi", "softmax+c+mi"],
    "size-curve": ["softmax", "softmax+cpr:20,100+mi"],
    "sweep-k": ["softmax+mi", "softmax+cpr:100,200+mi"],
    "order-bias": ["softmax+mi", "mos+mi"],
}


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Made-up sentences with names that return."""
    draw = random.Random(0)
    names, verbs = ["Anna", "Boris", "Clara", "Daniel"], ["saw", "met", "called", "heard"]
    things = ["the river", "a house", "the old king", "a tall woman", "the tennis player"]
    lines = [
        f"In the morning {draw.choice(names)} {draw.choice(verbs)} {draw.choice(things)} , and then "
        f"{draw.choice(names)} {draw.choice(verbs)} {draw.choice(things)} near the plates and keys ."
        for _ in range(1500)
    ]
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return tmp_path_factory.mktemp("lab"), tmp_path_factory.mktemp("results")


def reproduce(name, text, folders, *more, rows=None):
    methods = [word for method in rows or ROWS[name] for word in ("--method", method)]
    work, output = folders
    given = ["--preset", "tiny", "--data", str(text), "--work", str(work), "--output", str(output)]
    return main(["reproduce", name, *given, *methods, *more])


@pytest.mark.parametrize("name", list(ROWS))
def test_every_experiment_runs_and_says_what_it_found(name, text, folders, capsys) -> None:
    assert reproduce(name, text, folders) == 0
    shown = capsys.readouterr().out
    folder = folders[1] / name
    data = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    experiment = load_experiment(name)
    sizes = len(experiment.sizes(PRESETS["tiny"]))
    assert sorted(row["method"] for row in data["rows"]) == sorted(ROWS[name] * sizes)
    for row in data["rows"]:
        for column in experiment.columns:
            assert column.key in row["found"] | data["together"].get(row["method"], {}), column
    assert experiment.title in shown
    assert shown.splitlines()[-1] == f"Written to {folder}"
    assert (folder / "plot.png").exists() == (experiment.plot is not None)


def test_rows_that_are_done_are_not_done_again(text, folders, monkeypatch, capsys) -> None:
    assert reproduce("table1", text, folders) == 0
    before = (folders[1] / "table1" / "results.json").read_text(encoding="utf-8")
    monkeypatch.setattr(
        "unbottle.experiments.workspace.train_lm", lambda *args, **options: pytest.fail("trained again")
    )
    assert reproduce("table1", text, folders) == 0
    assert (folders[1] / "table1" / "results.json").read_text(encoding="utf-8") == before


def test_a_stopped_run_keeps_its_rows(text, folders, monkeypatch, capsys) -> None:
    def stopped(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("unbottle.experiments.workspace.train_lm", stopped)
    rows = [*ROWS["table1"], "softmax+p+mi"]  # which no other test trains
    assert reproduce("table1", text, folders, rows=rows) == 130
    data = json.loads((folders[1] / "table1" / "results.json").read_text(encoding="utf-8"))
    assert [row["method"] for row in data["rows"]][: len(ROWS["table1"])] == ROWS["table1"]


def test_all_methods_see_the_same_data_in_the_same_order(text, folders) -> None:
    """The same windows, and the same settings of the run, the seed of their order included."""
    assert reproduce("table1", text, folders) == 0
    runs = [folders[0] / "rows" / "small" / name / "run.json" for name in ("softmax-0", "softmax+cpr20-100+mi-0")]
    one, other = (json.loads(path.read_text(encoding="utf-8")) for path in runs)
    assert one["data"] == other["data"]
    assert one["settings"] | {"output": ""} == other["settings"] | {"output": ""}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["table9"], "experiment 'table9': unknown. Known: table1"),
        (["table1", "--preset", "huge"], "preset 'huge': unknown. Known: paper, cpu, tiny."),
        (["table1", "--method", "softmax+e"], "method 'softmax+e': not a row of table1"),
        (["table1", "--size", "large"], "size 'large': not a backbone of preset cpu. Known: small, medium, smaller."),
        (["table1", "--templates", "mine"], "templates 'mine': unknown. Known: public, own."),
        (["table1", "--preset", "tiny", "--pairs", __file__], "only for analogy, not for table1"),
        (["table1", "--preset", "tiny", "--contexts", "4"], "--contexts 4: only for analogy, not for table1"),
        (["table1", "--preset", "tiny", "--train", "all"], "train 'all': unknown. Known: head, lora."),
        (["table1", "--preset", "tiny", "--train", "lora"], "--train lora: only with --model"),
        (["summarization", "--preset", "tiny", "--model", "."], "only for experiments on causal models"),
        (["summarization", "--data", "booksum"], "paragraphs is not on the hub"),
        (["table1", "--preset", "tiny", "--data", "nowhere.txt"], "nowhere.txt"),
    ],
)
def test_refusals(given, message, capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", *given]) == 2
    assert message in capsys.readouterr().err


def test_rows_are_those_that_the_vocabulary_is_large_enough_for(capsys) -> None:
    rows = {}
    for preset in PRESETS:
        assert main(["reproduce", "sweep-k", "--preset", preset, "--dry-run"]) == 0
        rows[preset] = json.loads(capsys.readouterr().out)["methods"]
    assert rows["paper"] == rows["cpu"] == [*load_experiment("sweep-k").methods]
    assert rows["tiny"] == [method for method in rows["cpu"] if "500" not in method]


def test_tiny_needs_no_data(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "table4", "--preset", "tiny", "--method", "softmax+mi"]) == 0
    assert "text sample, seeds 0" in capsys.readouterr().out
    assert (tmp_path / "results" / "tiny" / "table4" / "plot.png").exists()


def test_any_backbone_of_the_preset_can_be_named(text, folders, tmp_path) -> None:
    assert reproduce("order-bias", text, (folders[0], tmp_path), "--size", "medium", rows=["softmax+mi"]) == 0
    data = json.loads((tmp_path / "order-bias" / "results.json").read_text(encoding="utf-8"))
    assert [row["size"] for row in data["rows"]] == ["medium"]


def test_the_analogy_protocol_trains_the_answer_alone_and_keeps_the_embeddings(text, folders, tmp_path) -> None:
    """With Google's format of pairs; our own templates are another experiment."""
    questions = tmp_path / "questions.txt"
    words = ["a b c d", "e f g h", "i j k l", "m n o p"]
    questions.write_text(": family\n" + "\n".join(words), encoding="utf-8")
    seen = {}
    from unbottle.experiments import workspace

    train = workspace.train_lm

    def watched(model, data, *args, **options):
        if hasattr(model, "head"):
            row = data[0]
            seen["labels"] = (row["labels"] != -100).sum().item(), len(row["labels"])
            seen["before"] = model.get_output_embeddings().weight.detach().clone()
            train(model, data, *args, **options)
            seen["after"] = model.get_output_embeddings().weight.detach().clone()
        else:
            train(model, data, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workspace, "train_lm", watched)
        patch.setattr("unbottle.experiments.language_tables.RELATIONS", ("family",))
        assert reproduce("analogy", text, (folders[0], tmp_path), "--pairs", str(questions), rows=["softmax+mi"]) == 0
    assert 0 < seen["labels"][0] < 5 < seen["labels"][1]
    assert (seen["before"] == seen["after"]).all()
    assert (tmp_path / "analogy-questions" / "results.json").exists()
    assert reproduce("analogy", text, (folders[0], tmp_path), "--templates", "own", rows=["softmax+mi"]) == 0
    assert (tmp_path / "analogy-own" / "results.json").exists()


@pytest.mark.parametrize("train", ["head", "lora"])
def test_a_pretrained_model_takes_the_place_of_the_backbone(train, text, folders, tmp_path, monkeypatch) -> None:
    """Its own weights stay as they are, or get adapters; what is stored names the model without its path."""
    from unbottle.experiments import workspace

    model = folders[0] / "base" / "small" / "model"
    if not model.exists():
        assert reproduce("order-bias", text, folders, rows=["softmax+mi"]) == 0
    trained = []

    def watched(model, data, valid, settings, **options):
        trained.append((settings.train, model.head.config.form))
        return train_lm(model, data, valid, settings, **options)

    train_lm = workspace.train_lm
    monkeypatch.setattr(workspace, "train_lm", watched)
    options = ("--model", str(model), "--train", train, "--contexts", "2")
    assert reproduce("analogy", text, (tmp_path / "work", tmp_path), *options, rows=["softmax+c+mi"]) == 0
    assert trained == [(train, "balanced")]
    stored = (tmp_path / "analogy" / "results.json").read_text(encoding="utf-8")
    assert str(folders[0]) not in stored
    data = json.loads(stored)
    assert [row["size"] for row in data["rows"]] == ["model"]
    assert data["settings"]["preset"]["backbones"] == {"model": {"pretrained": "model", "config": {}}}
    table = (tmp_path / "analogy" / "table.md").read_text(encoding="utf-8")
    assert (
        f"unbottle reproduce analogy --preset tiny --data text.txt --model model --train {train} --contexts 2" in table
    )


def test_models_are_evaluated_on_the_gpu_if_there_is_one(text, folders, monkeypatch) -> None:
    monkeypatch.setattr("unbottle.experiments.workspace.best_device", lambda: "meta")
    assert load_experiment("table1").workspace.load(folders[0] / "base" / "small" / "model").device.type == "meta"


def test_another_text_in_the_same_folder_is_refused(text, folders, tmp_path, capsys) -> None:
    assert reproduce("table1", text, folders) == 0
    other = tmp_path / "other.txt"
    other.write_text("something else " * 5000, encoding="utf-8")
    assert reproduce("table1", other, folders) == 2
    assert "made with another preset or text" in capsys.readouterr().err


def test_a_text_is_known_by_its_content(text, folders, tmp_path, capsys) -> None:
    """Another text under the same name is refused; the same text under the same name elsewhere is not."""
    assert reproduce("table1", text, folders) == 0
    moved = tmp_path / text.name
    moved.write_bytes(text.read_bytes())
    assert reproduce("table1", moved, folders) == 0
    moved.write_bytes(text.read_bytes() + b"more")
    capsys.readouterr()
    assert reproduce("table1", moved, folders) == 2
    assert "made with another preset or text" in capsys.readouterr().err
    elsewhere = (tmp_path / "lab", folders[1])
    assert reproduce("table1", moved, elsewhere) == 2
    assert "holds results of another preset or text" in capsys.readouterr().err


def test_folders_from_before_contents_were_known_are_accepted(text, folders, capsys) -> None:
    assert reproduce("table1", text, folders) == 0
    results = folders[1] / "table1" / "results.json"
    for path, part in ((folders[0] / "lab.json", None), (results, "settings")):
        data = json.loads(path.read_text(encoding="utf-8"))
        del (data if part is None else data[part])["content"]
        path.write_text(json.dumps(data), encoding="utf-8")
    assert reproduce("table1", text, folders) == 0
    assert "content" not in json.loads(results.read_text(encoding="utf-8"))["settings"], "it is not known of those rows"


def test_two_processes_do_not_train_the_same_row(text, tmp_path, capsys) -> None:
    with folder_lock(tmp_path / "lab" / "base" / "small"):
        assert reproduce("table1", text, (tmp_path / "lab", tmp_path / "results")) == 2
    assert "Wait until it is finished, or give another output folder." in capsys.readouterr().err


def test_dry_run_prints_everything_and_does_nothing(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "table1", "--dry-run", "--seeds", "3"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["seeds"] == [0, 1, 2]
    assert len(told["methods"]) == 15
    assert told["preset"]["rows"]["length"] == 200
    assert not list(tmp_path.iterdir())


def test_what_fails_leaves_nothing_and_does_not_stand_in_the_way(text, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    places = (tmp_path / "lab", tmp_path / "results")
    assert reproduce("order-bias", "nowhere.txt", places) == 2
    assert [*tmp_path.iterdir()] == []
    (tmp_path / "lab" / "base").mkdir(parents=True)  # what such a run left behind before
    (tmp_path / "lab" / "base" / ".small.lock").touch()
    (tmp_path / "lab" / "lab.json").write_text('{"data": "nowhere.txt"}', encoding="utf-8")
    assert reproduce("order-bias", text, places) == 0, capsys.readouterr().err


def test_a_model_that_is_nowhere_is_refused_before_anything_is_written(text, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("unbottle.hub_access.reachable", lambda: False)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    assert main(["reproduce", "table1", "--preset", "paper", "--data", str(text)]) == 2
    assert "model 'gpt2' is no folder here, and the Hub cannot be reached" in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == []


def test_a_diverged_training_is_a_row(text, folders, tmp_path, monkeypatch, capsys) -> None:
    """The other rows are run, the table says which one diverged, and it is not trained again."""
    from unbottle.experiments import workspace
    from unbottle.train.divergence import DivergenceError

    train = workspace.train_lm

    def diverging(model, *args, **options):
        if hasattr(model, "head") and str(model.head.config.method) == "mos":
            raise DivergenceError("loss is NaN at step 2, on rows 1, 2")
        return train(model, *args, **options)

    monkeypatch.setattr(workspace, "train_lm", diverging)
    rows = ["softmax", "mos", "mos+mi"]
    assert reproduce("table1", text, (folders[0], tmp_path), rows=rows) == 0
    data = json.loads((tmp_path / "table1" / "results.json").read_text(encoding="utf-8"))
    found = {row["method"]: row["found"] for row in data["rows"]}
    assert found["mos"] == {"broken": "loss is NaN at step 2"}
    assert found["mos+mi"]["perplexity"] > 0
    assert set(data["together"]) == {"softmax", "mos+mi"}
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("| MoS  "))
    assert line.split("|")[2].strip() == "broken"
    monkeypatch.setattr(workspace, "train_lm", lambda *args, **options: pytest.fail("trained again"))
    assert reproduce("table1", text, (folders[0], tmp_path), rows=rows) == 0
