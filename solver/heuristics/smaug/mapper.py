"""SMAUG's tiling as a mapper: one mapping, found without a single price."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from model.mapping import Mapping
from model.mapspace import Mapspace
from model.tiling.tilings import Backend, Tiling
from solver.heuristics.interface import MapperError
from solver.heuristics.smaug.enumeration import CannotTile
from solver.heuristics.smaug.mapping import MappedTiling, tiling_mapping
from solver.heuristics.smaug.problems import find_operator
from solver.heuristics.smaug.scratchpads import find_scratchpads
from solver.heuristics.smaug.tiler import tile

if TYPE_CHECKING:
    from solver.heuristics.pricing import Pricing


@dataclass(frozen=True)
class TiledMapspace:
    """A tiling of a mapspace's problem for its scratchpads, and the mapping nearest to it."""

    tiling: Tiling
    mapped: MappedTiling


class SmaugTiling:
    """Fills scratchpads with SMAUG's tiles, and loops over them in SMAUG's order.

    It maps convolutions and matrix products onto architectures whose on-chip levels that are not below a
    fanout can keep all tensors. The tiles are chosen for the size of these scratchpads, without padding.

    Parameters
    ----------
    num_pes
        Step and minimum of output features in a tile.
    num_maccs_per_pe
        Step and minimum of channels in a tile.

    Raises
    ------
    ValueError
        One of them is below 1.
    """

    def __init__(self, num_pes: int = 8, num_maccs_per_pe: int = 32) -> None:
        if min(num_pes, num_maccs_per_pe) < 1:
            raise ValueError("num_pes and num_maccs_per_pe must be at least 1")
        self._num_pes = num_pes
        self._num_maccs_per_pe = num_maccs_per_pe

    def find_mapping(self, mapspace: Mapspace, pricing: Pricing) -> Mapping:
        """Return the mapping that comes nearest to SMAUG's tiling, and note where it departs from it.

        Raises
        ------
        MapperError
            As of `tile`.
        """
        mapped = self.tile(mapspace).mapped
        for rounding in mapped.roundings:
            pricing.note(str(rounding))
        return mapped.mapping

    def tile(self, mapspace: Mapspace) -> TiledMapspace:
        """Tile the problem for the architecture's scratchpads, and represent the tiling as a mapping.

        Raises
        ------
        MapperError
            If problem or architecture are not of the kind, or the problem cannot be tiled.
        """
        found = find_operator(mapspace.problem)
        scratchpads = find_scratchpads(mapspace)
        backend = Backend(
            name=mapspace.architecture.name,
            num_pes=self._num_pes,
            num_maccs_per_pe=self._num_maccs_per_pe,
            vector_size=1,
            spad_bytes=scratchpads.capacity,
            element_bytes=1,
            alignment=1,
        )
        try:
            tiling = tile(found.operator, backend)
        except CannotTile as error:
            raise MapperError(f"SMAUG cannot tile {found.operator.name}: {error}") from error
        return TiledMapspace(tiling, tiling_mapping(tiling, found, mapspace, scratchpads))
