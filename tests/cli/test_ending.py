"""How a launched command ends: without its process group, whichever way it went."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch.distributed as dist

import unbottle.train.distributed  # noqa: F401  # which joins the group
from unbottle.cli.errors import FAILED, INTERRUPTED, OK, REFUSED, ending


@pytest.mark.parametrize(
    ("error", "code"),
    [(None, OK), (ValueError("no"), REFUSED), (RuntimeError("broken"), FAILED), (KeyboardInterrupt(), INTERRUPTED)],
    ids=["done", "refused", "failed", "interrupted"],
)
def test_the_process_group_ends(
    error: BaseException | None, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    waits: list[str] = []
    monkeypatch.setattr("unbottle.train.distributed.barrier", lambda: waits.append("barrier"))
    with ending(debug=False) as end:
        dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
        if error is not None:
            raise error
    assert end.code == code
    assert not dist.is_initialized()
    assert waits == (["barrier"] if error is None else []), "one that is done waits for the others, which may need it"
