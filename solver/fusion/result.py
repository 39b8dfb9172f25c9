"""What a search for fused mappings returns: the mapping, its bound, what was searched, and the work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from model.extents import ANY, PERFECT, Factors
from model.fused.cascade import Cascade
from model.fused.mapping import FusedMapping
from model.fused.report import FusedEvaluation
from model.wording import listing
from solver.fusion.evidence import FusionEvidence
from solver.fusion.limits import FusionLimits
from solver.fusion.space import FusionSpace
from solver.result import Narrower, StageCost, Status, Termination, relative_gap

EVEN_NESTS = "tiles that are neither stored nor held have one place in {memories} below shared loops"
PERFECT_LOOPS = "loops have no remainders"
PERFECT_SHARED_LOOPS = "shared loops have no remainders"
PERFECT_STORES = "nests of Einsums that store tensors in memories with several instances have no remainders"
PERFECT_PARTS = (
    "nests of Einsums that store or hold something in {memory}, which exists several times, have no "
    "remainders"
)
WHOLE_WINDOWS = (
    "Einsums that store or hold something in {memory} do not divide dimensions of windows or strides among "
    "its instances"
)
HELD_OUTSIDE = "above shared loops, only {memory} holds tiles; below them, memories lie in any order"
UNMOVED_WINDOWS = "shared loops slide no windows of tensors that are passed on"
UNLIKE_ROOM = "{memories} stores nothing for several Einsums, as its size differs between them"
COPIES_ALONE = "tensors that only copies access are not stored in {memories}, with several instances"
COPIES_INSIDE = "tensors with copies are stored below all loops that their Einsums share"


@dataclass(frozen=True, slots=True)
class FusionProgress:
    """How far a search is, and in which of its stages: values in the units of `FusedResult.value`."""

    seconds: float
    objective: str
    stage: str
    cuts_settled: int
    cuts: int
    states_open: int
    incumbent: int | None
    bound: int | None


ProgressCallback = Callable[[FusionProgress], None]


@dataclass(frozen=True, slots=True)
class FusionStatistics:
    """How much work a search did.

    Parameters
    ----------
    edges, floors, mapped, searches
        Edges bounded in closed form, bounds on mapspaces without a search, edges that were mapped exactly
        (those that differ in names alone once), and searches for that and for bounds.
    paths, states, dominated
        Shortest paths found, states expanded for them, and states that others dominated.
    stages
        What each stage cost.
    """

    seconds: float
    edges: int
    floors: int
    mapped: int
    searches: int
    paths: int
    states: int
    dominated: int
    stages: tuple[StageCost, ...] = ()


@dataclass(frozen=True)
class FusedResult:
    """The result of a search for a fused mapping.

    Parameters
    ----------
    value, bound
        In energy units, cycles, or their product. No mapping of the space is below the bound.
    mapping, evaluation
        The best mapping found, and its cost by the cost model.
    unfused
        The best mapping without bodies and stored tensors, if that was found.
    restrictions
        What the space leaves out of all fused mappings, as phrases.
    limits
        What narrows it besides.
    evidence
        What the bound rests on, for certificates.
    perfect_factors, equal_parts
        Where there may be remainders, what is known of the mappings without any, and of those where shared
        loops have none.
    """

    status: Status
    termination: Termination
    objective: str
    cascade: Cascade
    value: int | None
    bound: int | None
    mapping: FusedMapping | None
    evaluation: FusedEvaluation | None
    unfused: FusedEvaluation | None
    statistics: FusionStatistics
    restrictions: tuple[str, ...]
    limits: FusionLimits = FusionLimits()
    evidence: FusionEvidence = field(default_factory=FusionEvidence)
    perfect_factors: Narrower | None = None
    equal_parts: Narrower | None = None
    hardware_order: Narrower | None = None

    @property
    def units_per_pj(self) -> int:
        """Energy units in a picojoule."""
        return self.cascade.einsums[0].mapspace.architecture.units_per_pj

    @property
    def factors(self) -> Factors:
        """Factors that loops of nests may have."""
        return ANY if has_any_factors(self.cascade) else PERFECT

    @property
    def shared_factors(self) -> Factors:
        """Factors that shared loops may have: the bound is one on mappings with these."""
        return PERFECT if self.limits.equal_parts else ANY

    @property
    def gap(self) -> float | None:
        """Relative distance between value and bound."""
        return relative_gap(self.value, self.bound)


def restrictions(space: FusionSpace) -> Iterator[str]:
    """Yield what a space leaves out of all fused mappings, as phrases."""
    first = space.einsums[0]
    any_factors = has_any_factors(space.cascade)
    yield from space.limits.phrases()
    if space.limits.equal_parts:
        yield PERFECT_SHARED_LOOPS if any_factors else PERFECT_LOOPS
    on_chip = first.mapspace.architecture.on_chip
    even = [level.name for level in on_chip if level.name not in first.memories_with_places]
    if even and not first.mapspace.counting_rule.has_places:
        yield EVEN_NESTS.format(memories=listing(even))
    if space.limits.max_loops != 0 and any(einsum.mapspace.free_order for einsum in space.einsums):
        yield HELD_OUTSIDE.format(memory=listing([space.memory.name]))
    if space.passes_windows:
        yield UNMOVED_WINDOWS
    if space.stores.unlike:
        names = (space.stores.levels[number].name for number in sorted(space.stores.unlike))
        yield UNLIKE_ROOM.format(memories=listing(names))
    if space.barred_to_copies:
        names = (space.stores.levels[number].name for number in sorted(space.barred_to_copies))
        yield COPIES_ALONE.format(memories=listing(names))
    homes = {level for levels in space.homes.values() for level in levels if level > 1}
    if any_factors and any(map(space.stores.outside, homes)):
        yield PERFECT_STORES
    if space.stores.least and space.copies.accessed:
        yield COPIES_INSIDE
    if not space.is_parted:
        return
    memory = listing([space.memory.name])
    if any_factors:
        yield PERFECT_PARTS.format(memory=memory)
    spaces = ((e.mapspace, own) for e in space.einsums for own in e.problem.dataspaces)
    if any(mapspace.has_windows(own) for mapspace, own in spaces):
        yield WHOLE_WINDOWS.format(memory=memory)


def has_any_factors(cascade: Cascade) -> bool:
    """Whether nests may have remainders."""
    return any(einsum.mapspace.factors == ANY for einsum in cascade.einsums)
