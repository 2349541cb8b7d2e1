"""Shape checks, hypothesis profiles and slices of large matrices, for all tests.

UNBOTTLE_CHECKED=1 checks the shapes and types that signatures of the maths state, and is four times as slow. `make
test` does so for the contract of the heads, `make test-full` for all tests.
"""

import gc
import os

import pytest
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

CHECKED = ["unbottle.ops", "unbottle.head"]  # where shapes are the point

if os.environ.get("UNBOTTLE_CHECKED") == "1":
    install_import_hook(CHECKED, "beartype.beartype")  # before anything imports unbottle

gc.unfreeze = lambda: None  # a benchmark thaws all objects when it is done: those that are frozen below as well

COMMON = {"deadline": None, "print_blob": True, "derandomize": True, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("fast", max_examples=20, **COMMON)
settings.register_profile("thorough", max_examples=200, **COMMON)
settings.load_profile("fast")  # make test-full: --hypothesis-profile thorough


@pytest.hookimpl(tryfirst=True)  # before `-m "not full"` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    import slices  # imports unbottle, for which the process that only distributes tests would wait
    import torch

    torch.set_num_threads(1)  # the tests run in parallel processes
    slices.mark_rows_outside_the_slice(items)


@pytest.fixture(scope="module", autouse=True)
def _frozen() -> None:
    """Leave what is there before a file out of later garbage collections: a million objects that stay."""
    gc.collect()
    gc.freeze()
