"""Each head is trained as its plan says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from unbottle.recipes.demo.plan import CPR, PLANS, SOFTMAX
from unbottle.recipes.demo.source_code import Code
from unbottle.recipes.demo.workshop import Workshop


@pytest.mark.parametrize(("own", "wanted"), [(1e-9, 1e-9), (None, PLANS["tiny"].heads.lr)])
def test_a_rate_of_its_own(own: float | None, wanted: float, tmp_path: Path) -> None:
    plan = replace(PLANS["tiny"], cpr_lr=own)
    shop = Workshop(tmp_path / "demo", plan, Code(root=tmp_path, parts={}), tmp_path)
    assert shop.settings(CPR, 0).lr == wanted
    assert shop.settings(SOFTMAX, 0).lr == plan.heads.lr
