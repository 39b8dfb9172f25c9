"""Networks: every Einsum mapped to its proven optimum, identical ones once, results kept on disk."""

from solver.network.cache import ResultCache
from solver.network.executors import Processes, Serial
from solver.network.run import LayerResult, NetworkResult, Run, map_network

__all__ = ["LayerResult", "NetworkResult", "Processes", "ResultCache", "Run", "Serial", "map_network"]
