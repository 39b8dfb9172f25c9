"""Whether a mapping satisfies the rules of a user: what the quantities in them are, exactly."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from collections.abc import Mapping as Named
from fractions import Fraction
from itertools import product
from types import MappingProxyType
from typing import Protocol

from model.architecture import Architecture
from model.cost.nest import Nest, NestLoop, build_nest
from model.cost.report import BrokenRule
from model.mapping import Mapping
from model.mapspace import Mapspace
from model.rules.language import Kind, Quantity, Rule, Value


class KeptTile(Protocol):
    """A dataspace that a level keeps, and the words of the level that its tile takes."""

    @property
    def dataspace(self) -> str: ...  # noqa: D102
    @property
    def size_words(self) -> int: ...  # noqa: D102


class Keeper(Protocol):
    """What a level keeps."""

    @property
    def dataspaces(self) -> Sequence[KeptTile]: ...  # noqa: D102


class Costs(Protocol):
    """What rules ask of the cost of a mapping of dense or sparse data."""

    @property
    def levels(self) -> Sequence[Keeper]: ...  # noqa: D102
    @property
    def energy(self) -> int | Fraction: ...  # noqa: D102
    @property
    def cycles(self) -> int: ...  # noqa: D102
    @property
    def units_per_pj(self) -> int: ...  # noqa: D102


def broken_rules(mapspace: Mapspace, mapping: Mapping, evaluation: Costs) -> tuple[BrokenRule, ...]:
    """Return the rules of a mapspace that a mapping breaks, with the figures that they are about.

    Parameters
    ----------
    mapspace
        Its rules.
    mapping, evaluation
        A mapping of its problem, and what the cost model says of it.

    Raises
    ------
    ValueError
        If a rule names a level or a fanout that the architecture lacks.
    """
    if not mapspace.rules:
        return ()
    nest = build_nest(mapspace.problem, mapspace.architecture, mapping)
    every = (broken_rule(rule, mapspace.architecture, nest, evaluation) for rule in mapspace.rules)
    return tuple(broken for broken in every if broken is not None)


def broken_rule(rule: Rule, architecture: Architecture, nest: Nest, evaluation: Costs) -> BrokenRule | None:
    """Return a rule with the figures that break it, None if it holds.

    Where memories have several places, what it says of their tiles holds at each place that is in use.
    """
    asked = {quantity.node for quantity in rule.quantities if quantity.kind == "tile"}
    used = used_places(architecture, [bool(level.dataspaces) for level in evaluation.levels])
    options = [[(name, place) for place in places] for name, places in used.items() if name in asked]
    for chosen in product(*options):
        facts = MappingFacts(architecture, nest, evaluation, dict(chosen))
        if not rule.holds(facts):
            return BrokenRule(rule, tuple((asked, facts(asked)) for asked in rule.quantities))
    return None


def used_places(architecture: Architecture, keeps: Sequence[bool]) -> dict[str, list[int]]:
    """Return the places at which rules look at the tiles of each memory: the first, and those that keep any.

    Parameters
    ----------
    keeps
        Of each storage level, outermost first, whether it keeps a dataspace.
    """
    return {
        architecture.levels[first].component: [first, *(place for place in inner if keeps[place])]
        for first, *inner in architecture.memories
    }


class MappingFacts:
    """The quantities of one mapping, as `model.rules.language.Quantity` defines them.

    Parameters
    ----------
    places
        For memories with several places, the number of the level at which their tiles are looked at. What
        they keep, and their loops, are those of all places together.
    """

    def __init__(
        self,
        architecture: Architecture,
        nest: Nest,
        evaluation: Costs,
        places: Named[str, int] = MappingProxyType({}),
    ) -> None:
        self._architecture = architecture
        self._nest = nest
        self._evaluation = evaluation
        self._places = places
        self._levels = {architecture.levels[own[0]].component: own for own in architecture.memories}
        self._fanout = {fanout.name: number for number, fanout in enumerate(architecture.fanouts)}

    def __call__(self, asked: Quantity) -> Value:
        """Return the value of a quantity; `ValueError` if the architecture lacks its node."""
        try:
            return self._READERS[asked.kind](self, asked)
        except KeyError as error:
            raise ValueError(f"the architecture has no {error.args[0]!r}, which {asked} names") from None

    def _tile(self, asked: Quantity) -> Value:
        place = self._places.get(asked.node, self._levels[asked.node][0])
        return self._nest.bounds[self._architecture.storage_indices[place]][asked.of]

    def _words(self, asked: Quantity) -> Value:
        return self._held(asked).get(asked.of, 0)

    def _keeps(self, asked: Quantity) -> Value:
        return asked.of in self._held(asked)

    def _held(self, asked: Quantity) -> dict[str, int]:
        """Words that the tile of each dataspace takes which a memory keeps."""
        levels = [self._evaluation.levels[place] for place in self._levels[asked.node]]
        return {space.dataspace: space.size_words for level in levels for space in level.dataspaces}

    def _capacity(self, asked: Quantity) -> Value:
        usable = self._architecture.levels[self._levels[asked.node][0]].usable_words
        if usable is None:
            raise ValueError(f"{asked.node!r} has no limited capacity, which {asked} asks for")
        return usable

    def _temporal_loops(self, asked: Quantity) -> tuple[NestLoop, ...]:
        positions = [self._architecture.storage_indices[place] for place in self._levels[asked.node]]
        return tuple(loop for position in reversed(positions) for loop in self._nest.temporal[position])

    def _spatial_loops(self, asked: Quantity) -> tuple[NestLoop, ...]:
        return self._nest.spatial[self._architecture.fanout_indices[self._fanout[asked.node]]]

    def _temporal(self, asked: Quantity) -> Value:
        return math.prod(loop.bound for loop in self._temporal_loops(asked) if loop.dim == asked.of)

    def _innermost(self, asked: Quantity) -> Value:
        return next((loop.dim for loop in self._temporal_loops(asked)), "")

    def _spatial(self, asked: Quantity) -> Value:
        return math.prod(loop.bound for loop in self._spatial_loops(asked) if loop.dim == asked.of)

    def _instances(self, asked: Quantity) -> Value:
        return math.prod(loop.bound for loop in self._spatial_loops(asked))

    def _children(self, asked: Quantity) -> Value:
        return self._architecture.fanouts[self._fanout[asked.node]].size

    def _energy(self, asked: Quantity) -> Value:
        return Fraction(self._evaluation.energy, self._evaluation.units_per_pj)

    def _cycles(self, asked: Quantity) -> Value:
        return self._evaluation.cycles

    _READERS: dict[Kind, Callable[[MappingFacts, Quantity], Value]] = {  # noqa: RUF012 (never changed)
        "tile": _tile,
        "words": _words,
        "keeps": _keeps,
        "capacity": _capacity,
        "temporal": _temporal,
        "innermost": _innermost,
        "spatial": _spatial,
        "instances": _instances,
        "fanout": _children,
        "energy": _energy,
        "cycles": _cycles,
    }
