"""Let programs that never import unbottle load a saved model, once they are told `trust_remote_code=True`.

    python -m unbottle.hub runs/cpr/model

`transformers serve` and the like start without a line of one's own where unbottle could be imported. This adds one to
the folder: a module that imports unbottle, and its name in config.json. The price is a question: where nobody said
whether to trust the folder, transformers asks, even for its tokenizer. So `save_pretrained` does not do it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from transformers.utils import CONFIG_NAME

from unbottle.hf.configuration import AUTO_MAP, MODEL_TYPE
from unbottle.hf.pretrained import UnbottledConfig

__all__ = ["UnbottledConfig", "add_remote_code"]

SHIM = "unbottle_shim"  # the module that trust_remote_code=True runs
SHIM_TEXT = "from unbottle.hub import UnbottledConfig  # pip install unbottle\n"


def add_remote_code(folder: str | Path) -> None:
    """Add the line that imports unbottle to a folder that `save_pretrained` wrote. `save_pretrained` drops it again."""
    path = Path(folder) / CONFIG_NAME
    data = json.loads(path.read_text(encoding="utf-8"))
    if data.get("model_type") != MODEL_TYPE:
        kind = data.get("model_type")
        raise ValueError(f"{folder} holds a {kind} model without a head, which plain transformers loads.")
    data[AUTO_MAP] = {"AutoConfig": f"{SHIM}.{UnbottledConfig.__name__}"}
    path.with_name(f"{SHIM}.py").write_text(SHIM_TEXT, encoding="utf-8")
    path.write_text(json.dumps(data, indent=2, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        add_remote_code(name)
