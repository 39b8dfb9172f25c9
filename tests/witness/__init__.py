"""Executes a mapping on real arrays and counts accesses by watching them; knows nothing of `model.cost`."""

from tests.witness.execute import Execution, execute
from tests.witness.layout import Layout
from tests.witness.storage import AccessCounts

__all__ = ["AccessCounts", "Execution", "Layout", "execute"]
