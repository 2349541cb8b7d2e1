"""The maths of the paper, on plain tensors. Start with `head.py`."""

from unbottle.head.cache import Past
from unbottle.head.config import HeadConfig
from unbottle.head.distribution import Distribution, Objective
from unbottle.head.embedding import Embedding
from unbottle.head.head import Head, Prediction
from unbottle.head.inputs import Source, States
from unbottle.head.knobs import Knobs
from unbottle.head.partition import Partition, register
from unbottle.head.projection import Needs, Projection

__all__ = [
    "Distribution",
    "Embedding",
    "Head",
    "HeadConfig",
    "Knobs",
    "Needs",
    "Objective",
    "Partition",
    "Past",
    "Prediction",
    "Projection",
    "Source",
    "States",
    "register",
]
