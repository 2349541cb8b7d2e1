"""Results: every row is on disk at once, comes back, and is not mixed with rows of other settings."""

import errno
import json
from dataclasses import replace

import pytest

from unbottle.experiments.results import Column, Experiment, ResultRow, Results, RowKey
from unbottle.method import Method

SETTINGS = {"preset": {"name": "cpu"}, "data": "text"}
EXPERIMENT = Experiment(
    name="table9",
    title="A table",
    methods=("softmax", "softmax+c"),
    measure=lambda workspace, row: {},
    columns=(Column("Perplexity", "perplexity"), Column("Time", "time")),
    paper={"": {"small": {"softmax": {"Wiki": 24.28}, "softmax+c": {"Wiki": 23.5}}}},
)


def row(method: str, seed: int, value: float) -> ResultRow:
    return ResultRow(method, seed, "small", {"perplexity": value})


def test_a_row_that_stands_twice_in_a_file_counts_once(tmp_path) -> None:
    results = Results(tmp_path, EXPERIMENT, SETTINGS)
    results.add(row("softmax", 0, 10.0))
    data = json.loads((tmp_path / "results.json").read_text())
    (tmp_path / "results.json").write_text(json.dumps(data | {"rows": data["rows"] * 2}))
    assert len(Results(tmp_path, EXPERIMENT, SETTINGS).rows) == 1


def test_a_row_without_a_metric_of_a_named_model_is_measured_again(tmp_path) -> None:
    columns = (*EXPERIMENT.columns, Column("FactCC", "factcc", 3))
    asked = replace(EXPERIMENT, columns=columns, models={"factcc": "mine"})
    results = Results(tmp_path, asked, SETTINGS)
    before = row("softmax", 0, 10.0)
    by_mine, by_other = (
        replace(before, metrics={"perplexity": 10.0, "factcc": value, "models": {"factcc": model}})
        for value, model in ((0.25, "mine"), (0.5, "other"))
    )
    results.add(before)
    assert before.key not in results
    assert before.key in Results(tmp_path, EXPERIMENT, SETTINGS)
    results.add(by_other)
    assert before.key not in results
    results.add(by_mine)
    results.add(by_other)  # too late
    assert before.key in results
    assert results.rows == [by_mine]
    results.add(other_row := row("softmax+c", 1, 3.0))
    again = replace(before, metrics={"perplexity": 10.0, "mauve": 0.75, "models": {"mauve": "third"}})
    both = replace(EXPERIMENT, columns=columns, models={"mauve": "third"})
    Results(tmp_path, both, SETTINGS).add(again)
    (kept, _) = Results(tmp_path, both, SETTINGS).rows
    assert kept.metrics == {"perplexity": 10.0, "mauve": 0.75, "factcc": 0.25, "models": kept.models}
    assert kept.models == {"mauve": "third", "factcc": "mine"}
    assert Results(tmp_path, both, SETTINGS).rows[1] == other_row  # rows keep their places
    assert kept.key in Results(tmp_path, replace(both, models=dict(kept.models)), SETTINGS)
    assert "FactCC by mine." in (tmp_path / "table.md").read_text(encoding="utf-8")
    diverged = replace(row("softmax+c", 0, 1.0), metrics={"broken": "at step 3"})
    results.add(diverged)
    assert diverged.key in results


def test_values_by_different_models_have_no_mean(tmp_path) -> None:
    experiment = replace(EXPERIMENT, columns=(Column("FactCC", "factcc"),), paper={})
    results = Results(tmp_path, experiment, SETTINGS)
    for seed, (value, model) in enumerate(((0.25, "one"), (0.75, "other"))):
        results.add(ResultRow("softmax", seed, "small", {"factcc": value, "models": {"factcc": model}}))
    text = results.markdown()
    assert [cell.strip() for cell in text.splitlines()[6].split("|")[1:-1]] == ["Softmax", ""]
    assert "FactCC by one. FactCC by other." in text


def test_rows_are_averaged_over_seeds_beside_the_paper(tmp_path) -> None:
    results = Results(tmp_path, EXPERIMENT, SETTINGS)
    for each in (row("softmax+c", 0, 9.0), row("softmax", 0, 10.0), row("softmax", 1, 12.0)):
        results.add(each)
    results.finish({"softmax": {"time": 1.0}})
    text = (tmp_path / "table.md").read_text(encoding="utf-8")
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    assert lines[0] == ["Method", "Perplexity", "Time", "paper: Wiki"]
    assert lines[2:] == [["Softmax", "11.00 ± 1.00", "1.00", "24.28"], [Method.parse("s+c").title, "9.00", "", "23.5"]]
    assert "unbottle reproduce table9 --preset cpu" in text
    assert "standard error" in text


def test_what_depends_on_all_rows_may_be_of_one_backbone(tmp_path) -> None:
    results = Results(tmp_path, EXPERIMENT, SETTINGS)
    results.add(row("softmax", 0, 10.0))
    results.add(replace(row("softmax", 0, 8.0), size="medium"))
    results.finish({"small, softmax": {"time": 1.5}, "medium, softmax": {"time": 2.5}})
    small, medium = results.markdown().split("### ")[1:]
    assert "1.50" in small
    assert "2.50" in medium
    assert "1.50" not in medium


def test_a_row_is_on_disk_before_the_next_begins(tmp_path) -> None:
    Results(tmp_path, EXPERIMENT, SETTINGS).add(row("softmax", 0, 10.0))
    again = Results(tmp_path, EXPERIMENT, SETTINGS)
    assert RowKey("softmax", 0, "small") in again
    assert RowKey("softmax", 1, "small") not in again
    assert RowKey("softmax", 0, "medium") not in again
    assert json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))["machine"]["cores"]


def test_two_processes_add_to_the_same_rows(tmp_path) -> None:
    one, two = Results(tmp_path, EXPERIMENT, SETTINGS), Results(tmp_path, EXPERIMENT, SETTINGS)
    one.add(row("softmax", 0, 10.0))
    two.add(row("softmax+c", 0, 9.0))
    one.add(row("softmax", 1, 11.0))
    two.finish({})
    assert len(Results(tmp_path, EXPERIMENT, SETTINGS).rows) == 3


def test_what_could_not_be_measured_is_left_out(tmp_path) -> None:
    """No token of a kind: no perplexity."""
    results = Results(tmp_path, EXPERIMENT, SETTINGS)
    for seed, value in enumerate((None, 9.0)):
        results.add(row("softmax", seed, value))
    results.add(row("softmax+c", 0, None))
    cells = [line.split("|")[2].strip() for line in results.markdown().splitlines() if line.startswith("|")]
    assert cells[2:] == ["9.00", ""]


def test_a_full_disk_keeps_the_rows_from_before(tmp_path, monkeypatch) -> None:
    results = Results(tmp_path, EXPERIMENT, SETTINGS)
    results.add(row("softmax", 0, 10.0))

    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("unbottle.files.replace_file", full)
    with pytest.raises(OSError, match=r"the disk of .* is full\. Files written before are complete"):
        results.add(row("softmax+c", 0, 9.0))
    monkeypatch.undo()
    again = Results(tmp_path, EXPERIMENT, SETTINGS)
    assert [each.method for each in again.rows] == ["softmax"]
    again.add(row("softmax+c", 0, 9.0))
    assert len(Results(tmp_path, EXPERIMENT, SETTINGS).rows) == 2


def test_results_of_other_settings_are_refused(tmp_path) -> None:
    Results(tmp_path, EXPERIMENT, SETTINGS).add(row("softmax", 0, 10.0))
    with pytest.raises(ValueError, match="another preset or text"):
        Results(tmp_path, EXPERIMENT, SETTINGS | {"data": "other"})


def test_a_row_that_another_process_has_added_meanwhile_is_there_once(tmp_path) -> None:
    one, two = Results(tmp_path, EXPERIMENT, SETTINGS), Results(tmp_path, EXPERIMENT, SETTINGS)
    one.add(row("softmax", 0, 10.0))
    two.add(row("softmax", 0, 11.0))
    assert [each.metrics["perplexity"] for each in two.rows] == [10.0]


def test_columns_in_parts_stand_in_tables_of_their_own(tmp_path) -> None:
    """The paper's numbers are with their like: by title, of the data set and of the size that it is like."""
    experiment = replace(
        EXPERIMENT,
        columns=(Column("Loss", "loss", 3, "model"), Column("R1", "r1", 1, "summaries")),
        paper={
            "news": {
                "T5-Small": {"softmax": {"Loss": 0.5, "R1": 30.0}},
                "T5-Base": {"softmax": {"Loss": 0.25, "R1": 40.0}},
            }
        },
    )
    beside = {"preset": {"name": "cpu", "beside": {"wide": "T5-Base"}}, "data": "news"}
    results = Results(tmp_path / "news", experiment, beside)
    for method in experiment.methods:
        results.add(ResultRow(method, 0, "wide", {"loss": 2.0, "r1": 20.0}))
    lines = [line for line in results.markdown().splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    assert cells[0] == ["Method", "Loss", "paper: Loss"]
    assert cells[2:4] == [["Softmax", "2.000", "0.25"], ["S + C", "2.000", ""]]
    assert cells[4] == ["Method", "R1", "paper: R1"]
    assert cells[6] == ["Softmax", "20.0", "40"]
    other = Results(tmp_path / "other", experiment, beside | {"data": "other"})
    other.add(ResultRow("softmax", 0, "wide", {"loss": 2.0, "r1": 20.0}))
    assert "paper:" not in other.markdown()


def test_a_line_for_all_windows_of_a_row(tmp_path) -> None:
    found = {"windows": [[1.5, 2], [3.0, 4]], "names": ["a [b]", "c"], "none": [], "deep": {"one": [1, 2]}}
    Results(tmp_path, EXPERIMENT, SETTINGS).add(ResultRow("softmax", 0, "small", found))
    text = (tmp_path / "results.json").read_text(encoding="utf-8")
    assert json.loads(text)["rows"][0]["found"] == found
    assert '"windows": [[1.5, 2], [3.0, 4]],\n' in text


def test_a_diverged_training_is_a_row_that_says_so(tmp_path) -> None:
    results = Results(tmp_path, EXPERIMENT, SETTINGS)
    results.add(ResultRow("softmax", 0, "small", {"broken": "loss is NaN at step 3"}))
    results.add(row("softmax+c", 0, 9.0))
    again = Results(tmp_path, EXPERIMENT, SETTINGS)
    assert [each.is_broken for each in again.rows] == [True, False]
    cells = [line.split("|")[2].strip() for line in again.markdown().splitlines() if line.startswith("|")]
    assert cells[2:] == ["broken", "9.00"]


def test_what_a_preset_says_about_itself_may_change(tmp_path) -> None:
    settings = {"preset": {"name": "cpu", "about": "An hour."}, "data": "text"}
    Results(tmp_path, EXPERIMENT, settings).add(row("softmax", 0, 10.0))
    reworded = {"preset": {"name": "cpu", "about": "About an hour."}, "data": "text"}
    assert len(Results(tmp_path, EXPERIMENT, reworded).rows) == 1
