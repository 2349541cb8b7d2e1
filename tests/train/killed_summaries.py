"""As killed.py, for summaries: python killed_summaries.py < JOBS (run by test_summarize)."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # after the folder of this file, where killed is

import killed
import tiny_summaries as tiny
from killing import kill_at

from unbottle.train import train_summarize


def run(job: dict, answer: Path) -> None:
    warnings.simplefilter("error")
    if job["where"] is not None:
        kill_at(*killed.PLACES[job["where"]], job["count"])
    result = train_summarize(
        tiny.model(job["model"]), tiny.pairs(), tiny.pairs(7, 1), tiny.settings(job["folder"], **job["options"])
    )
    answer.write_text(json.dumps(result.to_dict()))


if __name__ == "__main__":
    killed.run = run
    killed.main()
