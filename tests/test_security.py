"""Nothing that is read can run: no pickle, no code out of configs, data sets or model folders."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
import tiny_training as tiny
from safetensors import safe_open

import unbottle
from unbottle.cli.main import main
from unbottle.data import PairSource, read_pairs
from unbottle.train import train_lm

ROOT = Path(unbottle.__file__).parent
FILES = sorted([*ROOT.rglob("*.py"), *(Path(__file__).parents[1] / "scripts").glob("*.py")])
MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "telnetlib", "xmlrpc"}
CALLS = {
    "eval", "exec", "compile", "__import__", "torch.load", "torch.save", "yaml.load", "yaml.unsafe_load",
    "yaml.full_load", "os.system", "os.popen", "tempfile.mktemp", "numpy.load", "np.load", "shutil.unpack_archive",
}  # fmt: skip
ENDINGS = ("extractall",)  # of archives, whose names may lead anywhere
KEYWORDS = {
    ("shell", True), ("trust_remote_code", True), ("weights_only", False), ("allow_pickle", True),
    ("use_safetensors", False), ("safe_serialization", False),
}  # fmt: skip


def dangers(code: str) -> list[str]:
    """What could run something, by line."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            found += [f"{node.lineno}: import {name}" for name in names if name.split(".")[0] in MODULES]
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in CALLS or name.split(".")[-1] in ENDINGS:
                found.append(f"{node.lineno}: {name}()")
            for given in node.keywords:
                if isinstance(given.value, ast.Constant) and (given.arg, given.value.value) in KEYWORDS:
                    found.append(f"{node.lineno}: {given.arg}={given.value.value}")
            told = {ast.unparse(given.value) for given in node.keywords if given.arg is None}
            if name.split(".")[0].lower().startswith("auto") and name.endswith(".from_pretrained"):
                found += [] if told & {"SAFE", "NO_CODE"} else [f"{node.lineno}: {name} without SAFE"]
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_line_can_run_what_it_reads(path: Path) -> None:
    assert dangers(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "code",
    [
        "import pickle", "from dill import loads", "torch.load('x')", "torch.save(x, 'y')", "eval('1')", "exec(text)",
        "yaml.load(text)", "subprocess.run('x', shell=True)", "AutoModel.from_pretrained('x', trust_remote_code=True)",
        "AutoTokenizer.from_pretrained('x')", "tarfile.open('x').extractall()", "np.load('x', allow_pickle=True)",
        "auto.from_pretrained(path)", "model.save_pretrained('x', safe_serialization=False)",
    ],
)  # fmt: skip
def test_every_danger_is_seen(code: str) -> None:
    assert dangers(code)


@pytest.mark.parametrize("train", ["all", "head", "lora"])
def test_a_training_leaves_no_pickle(train: str, tmp_path) -> None:
    options = {"max_steps": 2, "save_every": 1, "keep": 5, "train": train, "report_to": None}
    train_lm(tiny.model(), tiny.windows(), tiny.windows(101, 1), tiny.settings(tmp_path, **options))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len([path for path in files if path.parent.name == "checkpoint-2"]) >= 8
    for path in files:
        if path.suffix == ".safetensors":
            with safe_open(path, framework="pt") as file:
                assert file.keys() is not None
        elif "tfevents" not in path.name:
            assert path.suffix in (".json", ".md", ".py") or path.name == ".lock", path
            path.read_text(encoding="utf-8")  # a pickle is none
    assert not [path.name for path in files if path.suffix == ".py"]


HOSTILE = [
    "lr: !!python/object/apply:os.system ['touch {}']",
    "!!python/object/new:subprocess.Popen [['touch', '{}']]",
    "lr: !!python/name:os.system",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_settings_file_can_not_run_code(text: str, tmp_path, capsys) -> None:
    (tmp_path / "settings.yaml").write_text(text.format(tmp_path / "ran"), encoding="utf-8")
    assert main(["train", "lm", "--config-file", str(tmp_path / "settings.yaml"), "--dry-run"]) == 2
    shown = capsys.readouterr().err
    assert "not valid YAML" in shown
    assert len(shown.splitlines()) == 1
    assert not (tmp_path / "ran").exists()


def hostile_model(folder: Path) -> Path:
    """A folder whose config asks for its own code."""
    folder.mkdir()
    (folder / "evil.py").write_text(f"open({str(folder / 'ran')!r}, 'w').close()\n", encoding="utf-8")
    own = {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model", "AutoTokenizer": ["evil.T", "evil.T"]}
    (folder / "config.json").write_text(json.dumps({"model_type": "evil", "auto_map": own}), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"auto_map": own, "tokenizer_class": "T"}), encoding="utf-8"
    )
    return folder


def test_a_model_folder_can_not_run_code(tmp_path, capsys) -> None:
    folder = hostile_model(tmp_path / "evil")
    (tmp_path / "text.txt").write_text("some text " * 99, encoding="utf-8")
    given = ["--data", str(tmp_path / "text.txt"), "--output", str(tmp_path / "run"), "--method", "softmax+c"]
    assert main(["train", "lm", "--model", str(folder), *given]) == 2
    assert "--tokenizer" not in capsys.readouterr().err
    assert main(["train", "lm", "--config", '{"model_type": "gpt2"}', "--tokenizer", str(folder), *given]) == 2
    with pytest.raises(ValueError, match="evil"):
        unbottle.load(folder)
    assert not (folder / "ran").exists()


def test_a_pickled_model_is_refused(tmp_path, capsys) -> None:
    import torch

    model = tiny.model(None)
    model.config.save_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    (tmp_path / "text.txt").write_text("some text " * 99, encoding="utf-8")
    given = ["--data", str(tmp_path / "text.txt"), "--output", str(tmp_path / "run")]
    assert main(["train", "lm", "--model", str(tmp_path), *given]) == 2
    shown = capsys.readouterr().err
    assert "safetensors" in shown
    assert len(shown.splitlines()) == 1


def test_names_in_data_never_become_paths(tmp_path) -> None:
    """Ids and columns that look like paths stay texts."""
    row = {"id": "../../outside", "../column": "a document", "/etc/summary": "short"}
    (tmp_path / "in" / "deep").mkdir(parents=True)
    file = tmp_path / "in" / "deep" / "pairs.jsonl"
    file.write_text(json.dumps(row) + "\n", encoding="utf-8")
    found = read_pairs(PairSource(path=str(file), text_column="../column", summary_column="/etc/summary"))
    assert found[0] == {"id": "../../outside", "document": "a document", "summary": "short"}
    predictions = tmp_path / "in" / "deep" / "predictions.jsonl"
    predictions.write_text(json.dumps(row | {"prediction": "short"}) + "\n", encoding="utf-8")
    before = {*tmp_path.rglob("*")}
    output = tmp_path / "in" / "deep" / "out"
    given = ["--predictions", str(predictions), "--text-column", "../column", "--summary-column", "/etc/summary"]
    assert main(["eval", "summaries", *given, "--tagger", "rules", "--output", str(output)]) == 0
    assert all(output in (path, *path.parents) for path in {*tmp_path.rglob("*")} - before)


def test_methods_never_lead_out_of_the_work_folder() -> None:
    from unbottle.experiments.row_spec import RowSpec

    for method in ("softmax+cpr:20,100+mi:2x3", "mos:2+wbwr:7", "Softmax + CPR:20,100 + Mi", "ps form=steady lr=1e-3"):
        assert not set(RowSpec.parse(method).folder_name) & set("/\\:.")
    for method in ("softmax/../../etc", "softmax form=../../etc", "softmax lr=../../etc", "softmax ../../etc=1"):
        with pytest.raises(ValueError, match="method"):
            RowSpec.parse(method)
