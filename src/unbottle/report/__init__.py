"""Tables and plots from result files."""

from unbottle.report.numbers import Estimate
from unbottle.report.table import Table

__all__ = ["Estimate", "Table"]
