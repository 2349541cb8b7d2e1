"""The end of a process group does not wait for itself."""

from __future__ import annotations

import subprocess
import sys

# Gloo's threads free what they sent and need the GIL for it, which nobody offers them until the group is destroyed.
SENDING = """
import sys
import torch.distributed as dist
from torch import nn, zeros
from unbottle.train.distributed import end_group

sys.setswitchinterval(60)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
wrapped = nn.parallel.DistributedDataParallel(nn.Linear(4, 4))
wrapped.itself = wrapped
del wrapped
for _ in range(2000):
    dist.broadcast(zeros(1), 0, async_op=True)
end_group()
print("ended")
"""


def test_a_group_that_still_sends_ends() -> None:
    done = subprocess.run([sys.executable, "-c", SENDING], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "ended", done.stderr
