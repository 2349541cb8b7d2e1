"""Shape checks, hypothesis profiles and slices of large matrices, for all tests.

UNBOTTLE_CHECKED=1 checks the shapes and types that signatures of the maths state, and is four times as slow. `make
test` does so for the contract of the heads, `make test-full` for all tests.
"""

import contextlib
import gc
import os

import pytest
import torch
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

CHECKED = ["unbottle.ops", "unbottle.head"]  # where shapes are the point

is_checked = os.environ.get("UNBOTTLE_CHECKED") == "1"
with install_import_hook(CHECKED, "beartype.beartype") if is_checked else contextlib.nullcontext():
    import slices  # which imports unbottle

torch.set_num_threads(1)  # the tests run in parallel processes

COMMON = {"deadline": None, "print_blob": True, "derandomize": True, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("fast", max_examples=20, **COMMON)
settings.register_profile("thorough", max_examples=200, **COMMON)
settings.load_profile("fast")  # make test-full: --hypothesis-profile thorough


@pytest.hookimpl(tryfirst=True)  # before `-m "not full"` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    slices.mark_rows_outside_the_slice(items)


def pytest_collection_finish() -> None:
    """Leave what was imported out of later garbage collections: a million objects that stay."""
    gc.collect()
    gc.freeze()
