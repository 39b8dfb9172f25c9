"""SMAUG's tiling optimizers: strategy, tile shape, tiles, and their schedule as a mapping."""

from solver.heuristics.smaug.tile_shapes import CannotTile
from solver.heuristics.smaug.tiler import tile

__all__ = ["CannotTile", "tile"]
