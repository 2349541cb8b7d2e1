"""Use an installed Unbottle as its users do, away from the repository: python -I scripts/smoke_test.py [core | demo]

core: attach, train a step, save, load, save and load a head, explain; the commands that need no extra. demo: `unbottle
demo` on a tiny model, which needs the extras train and demo. Without an argument: both.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path


def core() -> None:
    import torch
    from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel

    import unbottle
    from unbottle.hf.pretrained import SAFE

    torch.manual_seed(0)
    config = GPT2Config(vocab_size=100, n_embd=32, n_layer=3, n_head=4, n_positions=32, bos_token_id=0, eos_token_id=0)
    plain = GPT2LMHeadModel(config).eval()
    ids = torch.randint(1, 100, (2, 10))
    before = plain(ids).logits
    model = unbottle.attach(plain, "softmax+cpr:5,20+mi")
    torch.testing.assert_close(model(ids).logits, before, atol=1e-4, rtol=1e-4)

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(5):
        loss = model.train()(ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0], losses

    want = model.eval()(ids).logits
    tokens = model.generate(ids, max_new_tokens=4, do_sample=False, pad_token_id=0)
    model.save_pretrained("model")
    for again in (unbottle.load("model"), AutoModelForCausalLM.from_pretrained("model", **SAFE)):
        assert torch.equal(again.eval()(ids).logits, want)
        assert torch.equal(again.generate(ids, max_new_tokens=4, do_sample=False, pad_token_id=0), tokens)
    unbottle.save_head(model, "head")
    base = unbottle.detach(model)
    assert torch.equal(unbottle.load_head(base, "head").eval()(ids).logits, want)
    assert "softmax+cpr:5,20+mi" in Path("model", "README.md").read_text(encoding="utf-8")

    command("--version", shows=unbottle.__version__)
    command("doctor", shows="transformers")
    command("methods", "softmax+cpr:20,100+mi", shows="f_V")


def demo() -> None:
    """On some files of the standard library: its tokenizer is trained in seconds."""
    from unbottle.experiments import corpora
    from unbottle.experiments import demo_workspace as module

    library, folder = corpora.standard_library(), Path("library").absolute()
    folder.mkdir()
    for part in library.parts.values():
        for path in [path for path in part if path.parent == library.root][:20]:
            shutil.copy(path, folder / path.name)
    module.standard_library = lambda: corpora.standard_library(folder)
    command("demo", "--plan", "tiny", "--seeds", "1", "--output", "demo", shows="2. Real text")
    assert "<html" in Path("demo", "report.html").read_text(encoding="utf-8")
    groups = json.loads(Path("demo", "result.json").read_text(encoding="utf-8"))["groups"]
    assert all({*group["models"]} >= {"softmax", "cpr"} for group in groups.values())
    for name in ("softmax", "cpr"):
        assert Path("demo", name, "model", "model.safetensors").exists(), name


def command(*words: str, shows: str) -> None:
    """`unbottle WORDS`, in this process: torch takes seconds to import."""
    from unbottle.cli.main import main

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = main([*words])
    assert code == 0, (words, code, out.getvalue())
    assert shows in out.getvalue(), (words, out.getvalue())


STAGES = {"core": core, "demo": demo}

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        os.environ["HF_HUB_OFFLINE"] = "1"
        import unbottle

        repository = Path(__file__).resolve().parents[1] / "src"
        assert not Path(unbottle.__file__).resolve().is_relative_to(repository), "this is the repository, not a wheel"
        for stage in sys.argv[1:] or STAGES:
            STAGES[stage]()
            print(f"unbottle {unbottle.__version__} from {Path(unbottle.__file__).parent}: {stage} works")
