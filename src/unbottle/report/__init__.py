"""Tables and plots from result files."""

from unbottle.tables import Estimate, Table

__all__ = ["Estimate", "Table"]
