"""Write what the tests of this folder compare with.

    PYTHONPATH=src:tests OMP_NUM_THREADS=1 python tests/frozen/write_fixtures.py [names] [golden] [data]

It was run once, with the layout of the package before its reorganisation. What it wrote is what later versions must
read and compute: run it again only for a change that is meant to change them, and say so in CHANGELOG.md.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers
from frozen import golden, models, public, saved
from safetensors.torch import load as tensors_of
from safetensors.torch import save as bytes_of
from tokenizers import Tokenizer, pre_tokenizers, processors
from tokenizers import models as tokenizer_models

import unbottle

NAMES, VERBS = ["Anna", "Boris", "Clara", "Daniel"], ["saw", "met", "called", "heard"]
THINGS = ["the river", "a house", "the old king", "a tall woman", "the tennis player"]
SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]
DROPOUT = {"gpt2": dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.1), "t5": {"dropout_rate": 0.1}}
LEFT_OVER = (".lock", ".part", ".writable")  # how names of files end that no later run needs


def write_names() -> None:
    names = {"names": public.names(), "head_parameters": public.head_parameters(), "commands": public.commands()}
    write(public.FILE, names)


def write_golden() -> None:
    numbers = {case.name: golden.numbers(case) for case in golden.cases()}
    tokens = {case.name: golden.tokens(case) for case in golden.cases()}
    write(golden.FILE, {"numbers": numbers, "tokens": tokens})


def write_data() -> None:
    """Everything under data/, in a temporary folder first: no name of a folder of this machine gets into a file."""
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        with saved.inside(place):
            write_texts()
            expected = {"models": write_models(), "runs": write_runs()}
            for line in saved.RESULTS.values():
                saved.command(*line)
        (place / saved.EXPECTED.name).write_text(json.dumps(expected, indent=0) + "\n", encoding="utf-8")
        shutil.rmtree(place / "work")
        clean(place, temporary)
        shutil.rmtree(saved.DATA, ignore_errors=True)
        shutil.copytree(place, saved.DATA)
    files = [path for path in saved.DATA.rglob("*") if path.is_file()]
    print(f"data: {len(files)} files, {sum(path.stat().st_size for path in files):,} bytes")


def write_texts() -> None:
    draw = random.Random(0)

    def sentence() -> str:
        first, second = draw.sample(NAMES, 2)
        return f"{first} {draw.choice(VERBS)} {draw.choice(THINGS)} , and {second} {draw.choice(VERBS)} {first} ."

    lines = [sentence() for _ in range(260)]
    Path(saved.LONGER).write_text("\n".join(lines) + "\n", encoding="utf-8")
    Path(saved.TEXT).write_text("\n".join(lines[:80]) + "\n", encoding="utf-8")
    pairs = [
        {"document": f"{one} {other}", "summary": one} for one, other in zip(lines[:60], lines[60:120], strict=True)
    ]
    Path(saved.PAIRS).write_text("".join(json.dumps(pair) + "\n" for pair in pairs), encoding="utf-8")


def tokenizer() -> Any:
    """A word is a token."""
    words = sorted({*Path(saved.TEXT).read_text(encoding="utf-8").split()})
    vocabulary = {word: number for number, word in enumerate(SPECIAL + words)}
    made = Tokenizer(tokenizer_models.WordLevel(vocabulary, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    special = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, **special)


def write_models() -> dict[str, Any]:
    """Plain models, and what save_pretrained and save_head write; what each of them predicts."""
    spelling, found = tokenizer(), {}
    for name, kind in ((saved.CAUSAL, "gpt2"), (saved.SEQ2SEQ, "t5")):
        models.model(kind, torch.float32, len(spelling), **DROPOUT[kind]).save_pretrained(name)
        spelling.save_pretrained(name)

    def keep(name: str, model: Any, **options: Any) -> None:
        model.save_pretrained(name, **options)
        spelling.save_pretrained(name)
        found[name] = saved.predicted(model, Path(name))

    causal = with_head(saved.CAUSAL, saved.METHOD)
    keep("causal", causal)
    keep("sharded", causal, max_shard_size="4KB")
    unbottle.save_head(causal, "head")
    keep("seq2seq", with_head(saved.SEQ2SEQ, saved.SEQ2SEQ_METHOD))
    for former, form in saved.FORMS.items():
        keep(f"forms/{former}", with_head(saved.CAUSAL, saved.METHOD, form=form))
        rename_form(Path(f"forms/{former}/config.json"), form, former)
    unbottle.save_head(with_head(saved.CAUSAL, saved.METHOD, form="residual"), "head-difference")
    rename_form_of_head(Path("head-difference"), "difference")
    return found


def with_head(folder: str, method: str, **options: Any) -> Any:
    kind = transformers.AutoModelForSeq2SeqLM if folder == saved.SEQ2SEQ else transformers.AutoModelForCausalLM
    model = unbottle.attach(kind.from_pretrained(folder), method, **options)
    models.perturb(model.head)
    return model


def rename_form(path: Path, form: str, former: str) -> None:
    """As an older version would have named it."""
    text = path.read_text(encoding="utf-8")
    assert f'"form": "{form}"' in text
    path.write_text(text.replace(f'"form": "{form}"', f'"form": "{former}"'), encoding="utf-8")


def rename_form_of_head(folder: Path, former: str) -> None:
    """The same for a head alone, whose two files vouch for each other."""
    config, weights = folder / "head_config.json", folder / "head_model.safetensors"
    data = json.loads(config.read_text(encoding="utf-8"))
    data["head"]["form"] = former
    kept = {key: value for key, value in data.items() if key not in ("base_model_name_or_path", "weights_sha256")}
    checksum = hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()
    weights.write_bytes(bytes_of(tensors_of(weights.read_bytes()), metadata={"config_sha256": checksum}))
    data["weights_sha256"] = hashlib.sha256(weights.read_bytes()).hexdigest()
    config.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


def write_runs() -> dict[str, Any]:
    """How each run ends if nothing interrupts it; all but the finished ones are left as an interruption leaves them."""
    found = {}
    for name, line in saved.RUNS.items():
        run = Path("runs") / name
        saved.command(*line)
        found[name] = saved.ended(run)
        if name not in saved.FINISHED:
            shutil.rmtree(run)
            with saved.counted(kill_at=saved.BROKEN):
                code, printed = public.run(*line)
            assert code == 75, printed
    return found


def clean(folder: Path, temporary: str) -> None:
    """Without files that are only there while a process runs, and without the name of this machine's processor."""
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        if path.name.endswith(LEFT_OVER) or path.suffix == ".png":
            path.unlink()
        elif path.suffix in (".json", ".md"):
            text = path.read_text(encoding="utf-8")
            assert temporary not in text, f"{path} names a folder of this machine"
            if path.name == "results.json":
                processor = json.loads(text)["machine"]["processor"]
                path.write_text(text.replace(json.dumps(processor), '"a processor"'), encoding="utf-8")
                table = path.with_name("table.md")
                table.write_text(table.read_text(encoding="utf-8").replace(processor, "a processor"), encoding="utf-8")


def write(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data, indent=0) + "\n", encoding="utf-8")
    print(f"{path.name}: {path.stat().st_size:,} bytes")


PARTS = {"names": write_names, "golden": write_golden, "data": write_data}

if __name__ == "__main__":
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
