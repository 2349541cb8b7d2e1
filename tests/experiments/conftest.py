"""Experiments on tiny models."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package", autouse=True)
def _one_round() -> Iterator[None]:
    """Cost is measured in one round: here it only has to be there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unbottle.experiments.language_tables.ROUNDS", 1)
        yield
