"""python -m unbottle.bench.child: do one case once, print the peak memory. The case comes as JSON on stdin."""

from __future__ import annotations

import json
import sys

from unbottle.bench.case import HEAD, Case
from unbottle.bench.memory import forget_peak, own_peak


def main() -> None:
    import torch

    from unbottle.bench.models import Models
    from unbottle.bench.work import work

    case = Case.of(json.load(sys.stdin))
    torch.set_num_threads(case.threads)
    models = Models(case.point.shape, positions=case.point.positions, dtype=case.dtype)
    todo = work(models.model(case.variant, head_alone=case.point.measure in HEAD), case.point)
    todo.prepare()
    forget_peak()
    todo.run()
    print(json.dumps({"peak_mb": own_peak()}))


if __name__ == "__main__":
    main()
