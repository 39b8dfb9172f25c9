"""From the flattened tree and its constraints to the nodes and rules of the mapspace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from model.architecture import Fanout, StorageLevel
from model.formats.timeloop.clauses import ADDRESS_KEYS, Clause
from model.formats.timeloop.context import Context
from model.formats.timeloop.keeping import (
    Keeping,
    check_homes,
    note_outermost_passing,
    read_keeping,
    settle_outermost,
    settle_parallel,
)
from model.formats.timeloop.loops import LoopConstraints, read_loops
from model.formats.timeloop.macros import maximize
from model.formats.timeloop.rules import asks_for_children, note_no_fanout, note_split, spatial_rules
from model.formats.timeloop.slots import FanoutSlot, Slot, StorageSlot
from model.formats.timeloop.storage import read_storage
from model.formats.timeloop.tree import Leaf
from model.mapspace import ParallelGroup
from model.text.fields import as_fraction, source_ref
from model.text.keys import check_keys
from model.text.notes import note_at
from model.text.source import Node, Span, SpecError
from model.wording import listing


@dataclass(frozen=True)
class Assembly:
    """The nodes with their constraints, and what else of the architecture a mapspace needs.

    Parameters
    ----------
    slots
        Storage levels and fanouts, outermost first.
    compute
        The compute component.
    parallel
        Levels that exclude each other, as positions in `storages`.
    """

    slots: tuple[Slot, ...]
    compute: Leaf
    parallel: tuple[ParallelGroup, ...]

    @property
    def storages(self) -> tuple[StorageSlot, ...]:
        """The storage levels, outermost first."""
        return tuple(slot for slot in self.slots if isinstance(slot, StorageSlot))

    @property
    def fanouts(self) -> tuple[FanoutSlot, ...]:
        """The fanouts, outermost first."""
        return tuple(slot for slot in self.slots if isinstance(slot, FanoutSlot))


def assemble(clauses: Sequence[Clause], context: Context) -> Assembly:
    """Put the nodes together with their constraints.

    Raises
    ------
    SpecError
        No storage, no compute, nodes in an impossible order, or constraints in conflict.
    """
    compute = _compute(context)
    storages = [leaf for leaf in context.tree.leaves if leaf.role == "storage"]
    if not storages:
        raise SpecError("the architecture has no storage component", context.tree.span)
    _check_fanouts([leaf for leaf in context.tree.leaves if leaf.fanout > 1], storages[0], context)
    keepings, parallel = _keepings(clauses, storages, context)
    loops = _loops(clauses, context)
    fanouts = [node_loops.leaf for node_loops in loops if node_loops.kind == "spatial"]
    _check_fanouts(fanouts, storages[0], context)
    slots = tuple(_slot(node_loops, keepings, frozenset(fanouts), context) for node_loops in loops)
    return Assembly(slots, compute, parallel)


def _check_fanouts(fanouts: Sequence[Leaf], outermost: Leaf, context: Context) -> None:
    """Raise a SpecError for a fanout that stands above the outermost storage, or inside ``!Parallel``."""
    leaves, parallels = context.tree.leaves, context.tree.parallels
    if fanouts and leaves.index(fanouts[0]) <= leaves.index(outermost):
        related = ((outermost.span, "the outermost storage"),)
        message = f"fanout `{fanouts[0].name}` has no storage above it"
        hint = "the outermost storage is one: give it the bandwidth and the size of all its copies"
        raise SpecError(message, fanouts[0].span, related, hint=hint if fanouts[0] is outermost else None)
    inside = ((leaf, parallel) for parallel in parallels for leaf in fanouts if parallel.holds(leaf))
    for leaf, parallel in inside:
        related = ((parallel.span, "the `!Parallel` branch"),)
        raise SpecError("a spatial fanout cannot stand inside `!Parallel`", leaf.span, related)


def _compute(context: Context) -> Leaf:
    leaves = context.tree.leaves
    units = [leaf for leaf in leaves if leaf.role == "compute"]
    if not units:
        hint = "end it with a component whose class contains `mac` or `compute`"
        place = leaves[-1].span if leaves else context.tree.span
        related = tuple((own, f"`{name}` is not enabled") for name, own in context.tree.disabled)
        raise SpecError("the architecture has no compute component", place, related, hint=hint)
    if len(units) > 1:
        related = ((units[0].span, "the first"),)
        raise SpecError("the architecture has two compute components", units[1].span, related)
    behind = leaves[leaves.index(units[0]) + 1 :]
    if behind:
        related = ((units[0].span, "the compute component"),)
        raise SpecError(f"`{behind[0].name}` stands below the compute component", behind[0].span, related)
    around = [parallel for parallel in context.tree.parallels if parallel.holds(units[0])]
    if around:
        related = ((around[0].span, "the `!Parallel` branch"),)
        raise SpecError("the compute component cannot stand inside `!Parallel`", units[0].span, related)
    return units[0]


def _keepings(
    clauses: Sequence[Clause], storages: Sequence[Leaf], context: Context
) -> tuple[dict[Leaf, Keeping], tuple[ParallelGroup, ...]]:
    keepers = [leaf for leaf in context.tree.leaves if leaf.role in ("storage", "nothing")]
    keepings = {leaf: read_keeping(clauses, leaf, context) for leaf in keepers}
    for leaf in keepers:
        _check_nothing(leaf, keepings[leaf], context)
    groups = [settle_parallel(parallel, keepings, context) for parallel in context.tree.parallels]
    settle_outermost(keepings[storages[0]], context)
    levels = [keepings[leaf] for leaf in storages]
    _check_flags(levels, context)
    check_homes(levels, context)
    return keepings, tuple(group for group in groups if group is not None)


def _check_nothing(leaf: Leaf, keeping: Keeping, context: Context) -> None:
    spans = (*keeping.keep.values(), *keeping.bypass.values(), *keeping.no_coalesce.values())
    if leaf.role != "nothing" or not spans or any(p.holds(leaf) for p in context.tree.parallels):
        return
    raise SpecError("a dataspace constraint on `!Nothing` has no effect outside `!Parallel`", spans[0])


def _check_flags(levels: Sequence[Keeping], context: Context) -> None:
    for name, span in levels[0].no_coalesce.items():
        message = f"no_coalesce of `{name}` has no effect on `{levels[0].leaf.name}`, the outermost level"
        raise SpecError(message, span)
    for keeping in levels:
        if not keeping.coalesces_nothing:
            _note_idle(keeping.no_coalesce, "no_coalesce", keeping, context)
    note_outermost_passing(levels, context)


def _note_idle(flags: dict[str, Span], what: str, keeping: Keeping, context: Context) -> None:
    """Note flags on dataspaces that their level bypasses."""
    for name, span in flags.items():
        if name in keeping.bypass:
            sentence = what + " has no effect: `{}` bypasses `{}`"
            context.note(note_at(span, sentence, keeping.leaf.name, name))


def _loops(clauses: Sequence[Clause], context: Context) -> list[LoopConstraints]:
    """Return the loop constraints of all nodes, outermost first; a fanout lies above its component.

    One of 1 x 1 is none, unless it is asked for more: then no mapping satisfies the constraints, as
    with any other mesh that is too small.
    """
    constraints: list[LoopConstraints] = []
    for leaf in context.tree.leaves:
        if leaf.role == "nothing":
            continue
        spatial = read_loops(clauses, leaf, "spatial", context)
        if leaf.fanout > 1 or asks_for_children(spatial):
            constraints.append(spatial)
        else:
            note_no_fanout(spatial, context)
        if leaf.role == "storage":
            constraints.append(read_loops(clauses, leaf, "temporal", context))
    return maximize(constraints, context)


def _slot(
    loops: LoopConstraints,
    keepings: dict[Leaf, Keeping],
    fanouts: frozenset[Leaf],
    context: Context,
) -> Slot:
    if loops.kind == "spatial":
        rules = spatial_rules(loops, context)
        note_split(loops, rules, context)
        return FanoutSlot(loops, rules)
    keeping = keepings[loops.leaf]
    for what, flags in (("no_reuse", loops.no_reuse), ("rmw_first_update", loops.rmw_first_update)):
        if what not in loops.sweeping:
            _note_idle(flags, what, keeping, context)
    for name, span in loops.rmw_first_update.items():
        if not context.problem.dataspace(name).read_write:
            raise SpecError(f"rmw_first_update of `{name}` has no effect: it is only read", span)
    level = replace(
        read_storage(loops.leaf, fanouts, context),
        no_temporal_reuse=frozenset(loops.no_reuse),
        rmw_first_update=frozenset(loops.rmw_first_update),
        no_coalesce=frozenset(keeping.no_coalesce),
    )
    return StorageSlot(loops, level, keeping)


def node_of(slot: Slot) -> StorageLevel | Fanout:
    """Return the node of the canonical architecture, without energies."""
    if isinstance(slot, StorageSlot):
        return slot.level
    loops = slot.loops
    return Fanout(
        name=loops.leaf.name,
        mesh_x=loops.leaf.mesh_x,
        mesh_y=loops.leaf.mesh_y,
        no_multicast=frozenset(loops.no_reuse),
        no_link_transfer=frozenset(loops.no_link_transfer),
        mesh_sources=(source_ref(loops.leaf.mesh_place("meshX")), source_ref(loops.leaf.mesh_place("meshY"))),
    )


def min_parallelism(
    clauses: Sequence[Clause], assembly: Assembly, context: Context
) -> tuple[Fraction, Span | None]:
    """Return the least number of compute units in use that the constraints ask for, and where.

    They give it as a share of all units, on the innermost storage level or the compute component.

    Raises
    ------
    SpecError
        Another target, two constraints, or a share outside 0 to 1.
    """
    innermost = (assembly.storages[-1].loops.leaf, assembly.compute)
    least: tuple[Fraction, Span] | None = None
    for clause in clauses:
        if clause.kind != "parallelism":
            continue
        check_keys(clause.node, ("min", *ADDRESS_KEYS), "a parallelism constraint")
        if clause.leaf not in innermost:
            hint = f"put it on {listing(leaf.name for leaf in innermost)}"
            message = f"parallelism is constrained for the whole array, not at `{clause.leaf.name}`"
            raise SpecError(message, clause.node.span, hint=hint)
        value = clause.node.require("min", "a parallelism constraint")
        share = _share(value, context)
        if least is not None:
            raise SpecError("parallelism is constrained twice", value.span, ((least[1], "the first"),))
        least = (share, value.span)
    units = 1
    for slot in assembly.fanouts:
        units *= slot.loops.leaf.fanout
    return (Fraction(0), None) if least is None else (least[0] * units, least[1])


def _share(value: Node, context: Context) -> Fraction:
    share = as_fraction(value, "the least parallelism", context.variables)
    if not 0 <= share <= 1:
        raise SpecError("the least parallelism is a share of all compute units, between 0 and 1", value.span)
    return share


def note_overbooking(clauses: Sequence[Clause], context: Context) -> None:
    """Note that ``max_overbooked_proportion`` changes nothing for dense data.

    Raises
    ------
    SpecError
        Such a constraint has an unknown key.
    """
    for clause in clauses:
        if clause.kind == "overbooked":
            check_keys(clause.node, ("proportion", *ADDRESS_KEYS), "`max_overbooked_proportion`")
            sentence = (
                "max_overbooked_proportion changes nothing: tiles of dense data always have their full size"
            )
            context.note(note_at(clause.node.span, sentence))
