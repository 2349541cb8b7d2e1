"""UNBOTTLE_CHECKED=1 checks the shapes and types that signatures of the maths state, and is four times as slow.

`make test` does so for the tests of the maths, `make test-full` for all tests.
"""

import contextlib
import os

import torch
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

CHECKED = ["unbottle.ops", "unbottle.head"]  # where shapes are the point

is_checked = os.environ.get("UNBOTTLE_CHECKED") == "1"
with install_import_hook(CHECKED, "beartype.beartype") if is_checked else contextlib.nullcontext():
    import unbottle  # noqa: F401


torch.set_num_threads(1)  # the tests run in parallel processes
settings.register_profile(
    "unbottle", deadline=None, print_blob=True, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unbottle")
