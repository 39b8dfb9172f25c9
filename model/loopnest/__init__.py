"""Executes a mapping on real arrays and counts accesses by watching them; knows nothing of `model.cost`."""

from model.loopnest.execute import Execution, execute
from model.loopnest.layout import Layout
from model.loopnest.storage import AccessCounts

__all__ = ["AccessCounts", "Execution", "Layout", "execute"]
