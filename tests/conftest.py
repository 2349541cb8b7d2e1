"""Every test run checks the shapes that signatures state; UNBOTTLE_UNCHECKED=1 is four times as fast without."""

import contextlib
import os

import torch
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

unchecked = os.environ.get("UNBOTTLE_UNCHECKED") == "1"
with contextlib.nullcontext() if unchecked else install_import_hook("unbottle", "beartype.beartype"):
    import unbottle  # noqa: F401


torch.set_num_threads(1)  # the tests run in parallel processes
settings.register_profile(
    "unbottle", deadline=None, print_blob=True, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unbottle")
