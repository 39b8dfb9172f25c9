"""Numbers as choices: a Boolean per value of a factor, a tile or a product, from which costs can be read.

Rules on factors and on what is kept leave out values from the start (`solver.formulation.variables`); all
other constraints exclude values, or limit sums of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from model.counting.words import tile_words
from model.problem import Dataspace
from solver.cpsat import LARGEST_ACTIVITY, Literal
from solver.formulation.constraints import Constraints, Part, TakenRoom
from solver.formulation.program import EmptyProgramError, LiteralChoice, Number
from solver.formulation.requirements import constraints_of
from solver.formulation.variables import Variables

UNLIMITED_WORDS = 1 << 62
"""More words than any tile has."""


class Tables:
    """The variables of a mapspace, and what can be said of them.

    Parameters
    ----------
    variables
        Of the mapspace.

    Attributes
    ----------
    rounded
        Whether some capacity is too large for an exact row, so that solutions may exceed it by a little.
    """

    def __init__(self, variables: Variables) -> None:
        self.mapspace = variables.mapspace
        self.dims = variables.mapspace.problem.dims
        self.rounded = False
        self._variables = variables
        self._program = variables.program
        self.checked = self._program.checked
        self._words: dict[TakenRoom[LiteralChoice[int]], LiteralChoice[int]] = {}

    def require_all(self) -> None:
        """Let all constraints of the mapspace hold.

        Raises
        ------
        EmptyProgramError
            Nothing can satisfy one of them.
        """
        Constraints(self).require(constraints_of(self.mapspace))
        self._add_fanouts()
        self._add_loop_limit()

    def factor(self, node: int, dim: str) -> LiteralChoice[int]:
        """Return the factor of a node's loop over a dimension."""
        return self._variables.chains[dim].factor(node)

    def may_loop(self, node: int, dim: str) -> bool:
        """Whether a node may have a loop over a dimension."""
        return node in self._variables.chains[dim].live

    def extents(self, level: int) -> dict[str, LiteralChoice[int]]:
        """Return the extents of a level's tiles."""
        node = self._variables.positions[level]
        return {dim: chain.extent(node) for dim, chain in self._variables.chains.items()}

    def units(self) -> list[LiteralChoice[int]]:
        """Return, per dimension, the positions that the instances of the arithmetic take."""
        spread = (chain.positions(self._variables.fanouts) for chain in self._variables.chains.values())
        return [self._program.mapped(own, lambda positions: positions[0]) for own in spread]

    def along_x(self, node: int, dim: str) -> Literal:
        """Whether a dimension lies along the X axis of a fanout."""
        return self._variables.along_x(node, dim)

    def keeps(self, level: int, dataspace: str) -> Literal:
        """Whether a level keeps a dataspace."""
        kept = self._program.holds(self._variables.keeping[dataspace], lambda levels: level in levels)
        return self._program.true.negated() if kept is None else kept

    def holds(self, level: int, dataspace: str) -> Literal | None:
        """Whether a dataspace takes room in a level; None if it never does."""
        return self._variables.keeps(dataspace, lambda held: level in held)

    # ------------------------------------------------------------------------- limits

    def between(self, factor: LiteralChoice[int], least: int, most: int, literal: Literal | None) -> None:
        """Let a factor lie between two values."""
        self._forbid(factor, [own for own in factor.values if not least <= own <= most], literal)

    def product_at_most(
        self, name: str, parts: Sequence[Part[LiteralChoice[int]]], most: int, literal: Literal | None
    ) -> None:
        """Limit a product."""
        total = self._program.product([self._where(*part) for part in parts], name, most)
        self._forbid(total, [value for value in total.values if value > most], literal)

    def product_at_least(
        self, factors: Sequence[LiteralChoice[int]], least: int, literal: Literal | None
    ) -> None:
        """Ask for a product of at least so much."""
        total = self._program.product(factors, "units", least)
        self._forbid(total, [value for value in total.values if value < least], literal)

    def words_at_most(
        self, tiles: Sequence[TakenRoom[LiteralChoice[int]]], most: int, literal: Literal | None
    ) -> None:
        """Limit the words that tiles of a level take together; see `rounded`."""
        entries = self._entries(tiles)
        if not entries:
            return
        unit = self._unit(entries, tiles, most)
        total = self._program.sum_of([x for _, x in entries], [own // unit for own, _ in entries])
        self.checked.given(literal, self._program.model.add(total <= most // unit))
        self._exclude((x for own, x in entries if own > most), literal)

    def words_at_least(
        self, tiles: Sequence[TakenRoom[LiteralChoice[int]]], least: int, literal: Literal | None
    ) -> None:
        """Ask for tiles of a level that take at least so many words together; see `rounded`."""
        entries = self._entries(tiles)
        if not entries:
            self._refuse(literal, "nothing is kept")
            return
        unit = self._unit(entries, tiles, least)
        total = self._program.sum_of([x for _, x in entries], [-(-own // unit) for own, _ in entries])
        self.checked.given(literal, self._program.model.add(total >= least // unit))

    def _unit(
        self,
        entries: Sequence[tuple[int, Literal]],
        tiles: Sequence[TakenRoom[LiteralChoice[int]]],
        most: int,
    ) -> int:
        """Words in which sums are small enough for CP-SAT, so that a limit never excludes too much."""
        largest = max([most, *(own for own, _ in entries)])
        unit = -(-len(tiles) * (largest + 1) * len(entries) // LARGEST_ACTIVITY)
        self.rounded |= unit > 1
        return max(1, unit)

    def _where(self, factor: LiteralChoice[int], condition: Literal) -> LiteralChoice[int]:
        """A factor, 1 where a condition does not hold."""
        if condition.index == self._program.true.index or factor.known == 1:
            return factor
        if condition.index == self._program.true.negated().index:
            return self._program.constant(1)
        where = LiteralChoice((True, False), (condition, condition.negated()))
        return self._program.combined(factor, where, lambda own, holds: own if holds else 1)

    def _forbid(
        self, choice: LiteralChoice[Number], values: Iterable[Number], literal: Literal | None
    ) -> None:
        forbidden = set(values)
        if len(forbidden) == len(choice.values):
            self._refuse(literal, "no value is allowed")
            return
        self._exclude((x for value, x in choice.items() if value in forbidden), literal)

    def _refuse(self, literal: Literal | None, reason: str) -> None:
        """What a literal stands for cannot be."""
        if literal is None:
            raise EmptyProgramError(reason)
        self.checked.imply(literal, [])

    def _exclude(self, literals: Iterable[Literal], literal: Literal | None) -> None:
        """Let no literal hold where another one does."""
        if literal is None:
            self._program.forbid(literals)
            return
        for own in literals:
            self._program.model.add_implication(literal, own.negated())

    # -------------------------------------------------------------------------- tiles

    def _entries(self, tiles: Sequence[TakenRoom[LiteralChoice[int]]]) -> list[tuple[int, Literal]]:
        """Words that tiles may take, above a level's room one more than that, with literals."""
        for tile in tiles:
            if tile not in self._words:
                self._words[tile] = self._program.given(self._tile(tile), tile.held)
        return [entry for tile in tiles for entry in self._words[tile].items()]

    def words(self, level: int, space: Dataspace) -> LiteralChoice[int]:
        """Words of a level that a dataspace's tile takes if kept there, at most one more than fit."""
        storage = self._variables.level(level)
        usable = storage.usable_words
        size = storage.packing_of(space.name).size_per_value
        room = UNLIMITED_WORDS if usable is None else usable
        return self._tile(TakenRoom(space, self._program.true, size, room, self.extents(level)))

    def _tile(self, tile: TakenRoom[LiteralChoice[int]]) -> LiteralChoice[int]:
        groups = rank_groups(tile.dataspace, self.mapspace.problem.bound)
        parts = [self._part(tile, dims) for dims in groups]
        total = self._program.product(parts, f"tile{tile.dataspace.name}", tile.room)
        return self._program.mapped(total, lambda own: min(int(own) * tile.size_per_value, tile.room + 1))

    def _part(self, tile: TakenRoom[LiteralChoice[int]], dims: Sequence[str]) -> LiteralChoice[int]:
        """Words of a tile along the ranks of some dimensions."""
        extents: LiteralChoice[tuple[int, ...]] = self._program.constant(())
        for dim in dims:
            extents = self._program.combined(extents, tile.extents[dim], lambda own, value: (*own, value))
        ranks = tuple(rank for rank in tile.dataspace.ranks if any(term.dim in dims for term in rank))
        part = Dataspace(tile.dataspace.name, ranks)

        def words(extents: tuple[int, ...]) -> int:
            return min(tile_words(part, dict(zip(dims, extents, strict=True))), tile.room + 1)

        return self._program.mapped(extents, words)

    # ------------------------------------------------------------------ whole mappings

    def _add_fanouts(self) -> None:
        """Let all children of a fanout suffice: redundant, and stronger where a side is not decided yet."""
        for node, fanout in zip(self._variables.fanouts, self.mapspace.architecture.fanouts, strict=True):
            if node in self._variables.sides:
                parts = [(self.factor(node, dim), self._program.true) for dim in self.dims]
                self.product_at_most(f"children{node}", parts, fanout.size, None)

    def _add_loop_limit(self) -> None:
        """Let at most so many temporal loops have iterations."""
        most = self.mapspace.max_temporal_loops
        if most is not None:
            loops = [slot.live(dim) for slot in self._variables.slots for dim in slot.dims]
            self._program.model.add(self._program.sum_of(loops) <= most)


def rank_groups(space: Dataspace, bound: dict[str, int]) -> list[tuple[str, ...]]:
    """Group the dimensions with iterations that index a dataspace by the ranks that they share."""
    groups: list[set[str]] = []
    for rank in space.ranks:
        own = {term.dim for term in rank if bound[term.dim] > 1}
        if not own:
            continue
        touching = [group for group in groups if group & own]
        groups = [group for group in groups if not group & own]
        groups.append(own.union(*touching))
    return [tuple(sorted(group)) for group in groups]
