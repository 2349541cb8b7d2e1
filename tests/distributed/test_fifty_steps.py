"""Two processes have the losses of one, for fifty steps: CPR and CEPR, fused and dense, through DDP and FSDP2.

In float64 to 1e-5, and what no log has rounded to 1e-12: it is the same computation. In float32 the two add up in
another order, and AdamW carries the difference on: 1e-5 of each loss. `pytest -rA` prints the differences.
"""

from __future__ import annotations

from itertools import product

import pytest
from launching import CEPR, CPR, DDP, FIFTY, FSDP2, Runs, answer, assert_learnt, assert_same, folder_of

METHODS = {"cpr": CPR, "cepr": CEPR}
ENGINES = {"alone": {}, "ddp": DDP, "fsdp2": FSDP2}
RUNS = {
    f"{method} {path} {dtype} {engine}": [METHODS[method] | FIFTY | ENGINES[engine] | {"path": path, "dtype": dtype}]
    for method, path, dtype, engine in product(METHODS, ("fused", "dense"), ("float32", "float64"), ENGINES)
}
QUICK = [
    "cpr fused float32 alone", "cpr fused float32 ddp", "cepr fused float64 alone", "cepr fused float64 fsdp2",
]  # fmt: skip
LONG = [name for name in RUNS if name not in QUICK]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return folder_of({name: RUNS[name] for name in QUICK}, tmp_path_factory)


@pytest.fixture(scope="module")
def long_runs(runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    found = folder_of({name: RUNS[name] for name in LONG}, tmp_path_factory)
    return lambda name: runs(name) if name in QUICK else found(name)


def check(name: str, runs: Runs) -> None:
    both, alone = runs(name), runs(f"{name.rsplit(maxsplit=1)[0]} alone")
    assert len(answer(both)["valid_losses"]) == 3
    assert_learnt(both, 50)
    for part in ("losses", "valid_losses"):
        pairs = zip(answer(both)[part], answer(alone)[part], strict=True)
        print(f"{name}, {part}: {max(abs(here - there) for (_, here), (_, there) in pairs):.1e} at most")
    if "float64" in name:
        assert_same(both, alone, relative=0.0, exact=1e-12)
    else:
        assert_same(both, alone)


@pytest.mark.full  # ten steps: test_training.py
@pytest.mark.parametrize("name", [name for name in QUICK if "alone" not in name])
def test_as_one_process(name: str, runs: Runs) -> None:
    check(name, runs)


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in LONG if "alone" not in name])
def test_as_one_process_in_all_ways(name: str, long_runs: Runs) -> None:
    check(name, long_runs)
