"""What from_pretrained is told wherever a user names a model: nothing that it finds there is run."""

from __future__ import annotations

from typing import Any

NO_CODE: dict[str, Any] = {"trust_remote_code": False}  # else transformers asks at the terminal
SAFE: dict[str, Any] = NO_CODE | {"use_safetensors": True}  # no pickle, which runs code when it is read
