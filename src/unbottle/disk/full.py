"""whole_disk: a full disk is one sentence, and nothing that was written before is lost."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

FULL = (errno.ENOSPC, errno.EDQUOT)
SAYS_FULL = (  # safetensors, and torch.save in four ways
    "No space left on device",
    "os error 28",
    "Disk quota exceeded",
    "failed writing file",
    "file write failed",
    "unexpected pos",
    "iostream error",
)


@contextmanager
def whole_disk(folder: Path) -> Iterator[None]:
    """A full disk, however the libraries call it, becomes one sentence."""
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:
        if getattr(error, "errno", None) in FULL or any(text in str(error) for text in SAYS_FULL):
            full = OSError(
                f"the disk of {folder} is full. What was written before is complete: make room and run the same "
                "command again, and it goes on from there."
            )
            full.errno = errno.ENOSPC  # not in the constructor, which would put a number before the sentence
            raise full from error
        raise
