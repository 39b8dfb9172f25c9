"""From the flattened tree and its constraints to the nodes of the mapspace and what they keep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import takewhile

from model.architecture import Fanout, StorageLevel
from model.formats.timeloop.constraints import ADDRESS_KEYS, Clause, of
from model.formats.timeloop.context import Context
from model.formats.timeloop.loops import (
    LoopConstraints,
    asks_for_children,
    maximize,
    note_no_fanout,
    note_split,
    read_loops,
    spatial_rules,
)
from model.formats.timeloop.storage import read_storage, size_place
from model.formats.timeloop.tree import ArchLeaf, Parallel
from model.mapspace import KeepRules, ParallelGroup, SpatialRules
from model.text.fields import as_bool, as_share, check_keys, given, means_all, name_list
from model.text.source import MappingNode, Span, SpecError, note_at, source_ref
from model.wording import listing

KEPT = ("keep", "bypass", "keep_only", "bypass_only")
"""Keys of what a level keeps and bypasses."""

PLACES_KEY = "uneven"
"""Key of whether the dataspaces of a memory may have tiles at several places of the loop nest."""

_KEYS = (*KEPT, "no_coalesce", PLACES_KEY)


@dataclass
class Keeping:
    """What one level keeps and bypasses; it is filled while constraints are read."""

    leaf: ArchLeaf  # a storage level, or `!Nothing`
    # Names of dataspaces with the places that say so
    keep: dict[str, Span] = field(default_factory=dict)
    bypass: dict[str, Span] = field(default_factory=dict)
    no_coalesce: dict[str, Span] = field(default_factory=dict)
    has_places: bool = False  # whether its dataspaces may have tiles at several places of the loop nest
    coalesces_nothing: bool = False  # whether `no_coalesce` is `*`: all that the level has, whatever that is
    # What a `!Parallel` has to settle, whatever else is asked for
    settled: set[str] = field(default_factory=set)

    def rules(self) -> KeepRules:
        """Return the rules of the canonical mapspace."""
        places = {name: source_ref(span) for name, span in (self.keep | self.bypass).items()}
        return KeepRules(
            keep=frozenset(self.keep),
            bypass=frozenset(self.bypass),
            source=next(iter(places.values()), None),
            sources=tuple(places.items()),
            settled=frozenset(self.settled),
        )

    def keeps_nothing(self, context: Context) -> bool:
        """Whether all data bypass the level."""
        return self.bypass.keys() >= set(context.dataspaces)

    def may_hold(self, name: str) -> bool:
        """Whether the level may keep a dataspace, and not only pass on what others above it keep."""
        return name not in self.bypass and name not in self.no_coalesce

    def require(self, verb: str, name: str, span: Span) -> None:
        """Add a dataspace that must be kept or bypassed (`verb`), as `span` asks for."""
        mine, other = (self.keep, self.bypass) if verb == "keep" else (self.bypass, self.keep)
        if name in other:
            opposite = "bypass" if verb == "keep" else "keep"
            message = f"`{self.leaf.name or '!Nothing'}` cannot both keep and bypass `{name}`"
            raise SpecError(message, span, ((other[name], f"{opposite} is required here"),))
        mine.setdefault(name, span)


def read_keeping(clauses: Sequence[Clause], leaf: ArchLeaf, context: Context) -> Keeping:
    """Read the ``dataspace`` constraints of one leaf."""
    keeping = Keeping(leaf)
    for node in of(clauses, leaf, "dataspace"):
        check_keys(node, (*_KEYS, *ADDRESS_KEYS), "a dataspace constraint")
        for verb, opposite in (("keep", "bypass"), ("bypass", "keep")):
            _read_verb(node, verb, keeping, context)
            _read_only(node, verb, opposite, keeping, context)
        flagged = given(node, "no_coalesce")
        if flagged is not None:
            keeping.no_coalesce |= name_list(flagged, context.dataspaces, "dataspace")
            keeping.coalesces_nothing |= means_all(flagged)
        written = given(node, PLACES_KEY)
        if written is not None:
            keeping.has_places = as_bool(written, f"`{PLACES_KEY}`")
    return keeping


def _read_verb(node: MappingNode, verb: str, keeping: Keeping, context: Context) -> None:
    value = given(node, verb)
    if value is None:
        return
    for name, span in name_list(value, context.dataspaces, "dataspace").items():
        keeping.require(verb, name, span)


def _read_only(node: MappingNode, verb: str, opposite: str, keeping: Keeping, context: Context) -> None:
    """Read ``keep_only`` or ``bypass_only``: the dataspaces that are not listed do the opposite."""
    key = f"{verb}_only"
    value = given(node, key)
    if value is None:
        return
    listed = name_list(value, context.dataspaces, "dataspace")
    for name in context.dataspaces:
        keeping.require(verb if name in listed else opposite, name, listed.get(name, node.key(key).span))


def _settle_parallel(
    parallel: Parallel, keepings: dict[ArchLeaf, Keeping], context: Context
) -> ParallelGroup | None:
    """Bypass in each branch what another branch keeps."""
    home: dict[str, tuple[int, Span]] = {}
    for place, branch in enumerate(parallel.branches):
        kept = _kept_in_branch(branch, keepings)
        twice = next((name for name in kept if name in home), None)
        if twice is not None:
            related = ((home[twice][1], "the other branch keeps it here"),)
            raise SpecError(f"`{twice}` is kept in two branches of one `!Parallel`", kept[twice], related)
        home |= {name: (place, span) for name, span in kept.items()}
    for place, branch in enumerate(parallel.branches):
        others = {name: span for name, (owner, span) in home.items() if owner != place}
        _bypass(branch, others, keepings)
    return _group(parallel, home, keepings, context)


def _kept_in_branch(branch: Iterable[ArchLeaf], keepings: dict[ArchLeaf, Keeping]) -> dict[str, Span]:
    kept: dict[str, Span] = {}
    for leaf in branch:
        kept = {**keepings[leaf].keep, **kept} if leaf in keepings else kept
    return kept


def _bypass(branch: Iterable[ArchLeaf], names: dict[str, Span], keepings: dict[ArchLeaf, Keeping]) -> None:
    for leaf in branch:
        if leaf.role != "storage":
            continue
        for name, span in names.items():
            keepings[leaf].require("bypass", name, span)


def _group(
    parallel: Parallel, home: dict[str, tuple[int, Span]], keepings: dict[ArchLeaf, Keeping], context: Context
) -> ParallelGroup | None:
    storages = [[leaf for leaf in branch if leaf.role == "storage"] for branch in parallel.branches]
    inside = [leaf for levels in storages for leaf in levels]
    skips = [leaf for branch in parallel.branches for leaf in branch if leaf.role == "nothing"]
    outside = {name for name in context.dataspaces if all(name in keepings[leaf].bypass for leaf in inside)}
    homeless = [name for name in context.dataspaces if name not in home]
    lost = [name for name in homeless if name in outside and not parallel.nested and not skips]
    barred = [name for name in homeless if any(name in keepings[leaf].bypass for leaf in skips)]
    choice = parallel.nested or any(len(levels) > 1 for levels in storages)
    unsaid = [name for name in homeless if choice and name not in outside]
    if lost or barred or unsaid:
        hint = "keep it in one branch, or in a `!Nothing` branch if it bypasses all of them"
        if unsaid:
            hint += "; only where every branch is a single level is this choice left to the search"
        shown = listing(dict.fromkeys((*lost, *barred, *unsaid)))
        raise SpecError(f"no branch of this `!Parallel` keeps {shown}", parallel.span, hint=hint)
    for leaf in inside if choice else ():
        keepings[leaf].settled.update(context.dataspaces)
    if choice or not inside:
        return None
    levels = [leaf for leaf in context.tree.leaves if leaf.role == "storage"]
    return ParallelGroup(tuple(levels.index(leaf) for leaf in inside), may_skip=bool(skips))


def _settle_outermost(outermost: Keeping, context: Context) -> None:
    """Make the outermost level keep what it does not bypass, as the backing store of all data."""
    for name, span in outermost.bypass.items():
        sentence = (
            "`{}` is the outermost level and bypasses `{}`: "
            "bringing it to the first level that keeps it costs nothing"
        )
        context.note(note_at(span, sentence, outermost.leaf.name, name))
    for name in context.dataspaces:
        if name not in outermost.bypass:
            outermost.keep.setdefault(name, outermost.leaf.span)


def _check_homes(keepings: Sequence[Keeping], context: Context) -> None:
    """Check that some level may keep each dataspace, and note levels that keep nothing."""
    for keeping in () if context.idle_levels else keepings:
        if keeping.keeps_nothing(context):
            sentence = "`{}` keeps nothing: all data bypasses it"
            context.note(note_at(keeping.leaf.span, sentence, keeping.leaf.name))
    for name in context.dataspaces:
        if any(keeping.may_hold(name) for keeping in keepings):
            continue
        passing = [keeping for keeping in keepings if name not in keeping.bypass]
        bypassing = [keeping for keeping in keepings if name in keeping.bypass]
        places = [(k.no_coalesce[name], f"`{k.leaf.name}` only passes it on: no_coalesce") for k in passing]
        places += [(k.bypass[name], f"`{k.leaf.name}` bypasses it") for k in bypassing]
        hint = "a level with no_coalesce needs one above it that keeps the dataspace" if passing else None
        raise SpecError(f"no level keeps `{name}`", places[0][0], tuple(places[1:]), hint)


def _note_outermost_passing(keepings: Sequence[Keeping], context: Context) -> None:
    """Note the levels that count as bypassing, as nothing above them keeps what they only pass on."""
    for name in context.dataspaces:
        for keeping in _passing_on(name, keepings):
            sentence = "no level above `{}` keeps `{}`: with no_coalesce it counts as bypassing it"
            context.note(note_at(keeping.no_coalesce[name], sentence, keeping.leaf.name, name))


def _passing_on(name: str, keepings: Iterable[Keeping]) -> Iterator[Keeping]:
    """Yield the levels that only pass a dataspace on, out of those above the first that may hold it."""
    above = takewhile(lambda keeping: not keeping.may_hold(name), keepings)
    return (keeping for keeping in above if name not in keeping.bypass)


@dataclass(frozen=True)
class TemporalLevel:
    """A storage level."""

    loops: LoopConstraints
    storage: StorageLevel  # the level, without energies
    keeping: Keeping


@dataclass(frozen=True)
class SpatialLevel:
    """A fanout."""

    loops: LoopConstraints
    rules: SpatialRules  # of its loops in the canonical mapspace


TilingLevel = TemporalLevel | SpatialLevel


@dataclass(frozen=True)
class Assembly:
    """The nodes with their constraints, and what else of the architecture a mapspace needs."""

    levels: tuple[TilingLevel, ...]  # storage levels and fanouts, outermost first
    compute: ArchLeaf
    parallel: tuple[ParallelGroup, ...]  # levels that exclude each other, as positions in `storages`

    @property
    def storages(self) -> tuple[TemporalLevel, ...]:
        """The storage levels, outermost first."""
        return tuple(level for level in self.levels if isinstance(level, TemporalLevel))

    @property
    def fanouts(self) -> tuple[SpatialLevel, ...]:
        """The fanouts, outermost first."""
        return tuple(level for level in self.levels if isinstance(level, SpatialLevel))


def assemble(clauses: Sequence[Clause], context: Context) -> Assembly:
    """Put the nodes together with their constraints."""
    compute = _compute(context)
    storages = [leaf for leaf in context.tree.leaves if leaf.role == "storage"]
    if not storages:
        raise SpecError("the architecture has no storage component", context.tree.span)
    _check_fanouts([leaf for leaf in context.tree.leaves if leaf.fanout > 1], storages[0], context)
    keepings, parallel = _keepings(clauses, storages, context)
    loops = _loops_of_nodes(clauses, context)
    fanouts = [node_loops.leaf for node_loops in loops if node_loops.kind == "spatial"]
    _check_fanouts(fanouts, storages[0], context)
    levels = tuple(
        _assembled_level(node_loops, keepings, frozenset(fanouts), context) for node_loops in loops
    )
    return Assembly(levels, compute, parallel)


def _check_fanouts(fanouts: Sequence[ArchLeaf], outermost: ArchLeaf, context: Context) -> None:
    """Raise a SpecError for a fanout that stands above the outermost storage, or inside ``!Parallel``."""
    leaves, parallels = context.tree.leaves, context.tree.parallels
    if fanouts and leaves.index(fanouts[0]) <= leaves.index(outermost):
        related = ((outermost.span, "the outermost storage"),)
        message = f"fanout `{fanouts[0].name}` has no storage above it"
        hint = (
            "there must be a single outermost storage: give it the bandwidth and size of all copies together"
        )
        raise SpecError(message, fanouts[0].span, related, hint=hint if fanouts[0] is outermost else None)
    inside = ((leaf, parallel) for parallel in parallels for leaf in fanouts if parallel.holds(leaf))
    for leaf, parallel in inside:
        related = ((parallel.span, "the `!Parallel` branch"),)
        raise SpecError("a spatial fanout cannot be inside `!Parallel`", leaf.span, related)


def _compute(context: Context) -> ArchLeaf:
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
        raise SpecError(f"`{behind[0].name}` is below the compute component", behind[0].span, related)
    around = [parallel for parallel in context.tree.parallels if parallel.holds(units[0])]
    if around:
        related = ((around[0].span, "the `!Parallel` branch"),)
        raise SpecError("the compute component cannot be inside `!Parallel`", units[0].span, related)
    return units[0]


def _keepings(
    clauses: Sequence[Clause], storages: Sequence[ArchLeaf], context: Context
) -> tuple[dict[ArchLeaf, Keeping], tuple[ParallelGroup, ...]]:
    keepers = [leaf for leaf in context.tree.leaves if leaf.role in ("storage", "nothing")]
    keepings = {leaf: read_keeping(clauses, leaf, context) for leaf in keepers}
    for leaf in keepers:
        _check_nothing_kept(leaf, keepings[leaf], context)
    groups = [_settle_parallel(parallel, keepings, context) for parallel in context.tree.parallels]
    _settle_outermost(keepings[storages[0]], context)
    levels = [keepings[leaf] for leaf in storages]
    _note_flags(levels, context)
    _check_homes(levels, context)
    return keepings, tuple(group for group in groups if group is not None)


def _check_nothing_kept(leaf: ArchLeaf, keeping: Keeping, context: Context) -> None:
    spans = (*keeping.keep.values(), *keeping.bypass.values(), *keeping.no_coalesce.values())
    if leaf.role != "nothing" or not spans or any(p.holds(leaf) for p in context.tree.parallels):
        return
    raise SpecError("a dataspace constraint on `!Nothing` has no effect outside `!Parallel`", spans[0])


def check_rooms(levels: Iterable[TemporalLevel], context: Context) -> None:
    """Check that a storage of size 0 may keep nothing."""
    for level in levels:
        kept = [name for name in context.dataspaces if name not in level.keeping.bypass]
        if level.storage.size_words == 0 and kept:
            leaf = level.loops.leaf
            hint = "bypass all dataspaces there, or use `!Nothing`; kept data needs space for at least a word"
            message = f"`{leaf.name}` has the size 0, but may keep {listing(kept)}"
            raise SpecError(message, size_place(leaf), hint=hint)


def _note_flags(levels: Sequence[Keeping], context: Context) -> None:
    outermost = levels[0]
    if outermost.no_coalesce:
        sentence = "no_coalesce of {} has no effect on `{}`, which is the outermost level"
        place, names = next(iter(outermost.no_coalesce.values())), listing(outermost.no_coalesce)
        context.note(note_at(place, sentence, names, outermost.leaf.name))
        outermost.no_coalesce.clear()
    for keeping in levels:
        if not keeping.coalesces_nothing:
            _note_idle(keeping.no_coalesce, "no_coalesce", keeping, context)
    _note_outermost_passing(levels, context)


def _note_idle(flags: dict[str, Span], what: str, keeping: Keeping, context: Context) -> None:
    """Note flags on dataspaces that their level bypasses."""
    for name, span in flags.items():
        if name in keeping.bypass:
            sentence = what + " has no effect: `{}` bypasses `{}`"
            context.note(note_at(span, sentence, keeping.leaf.name, name))


def _loops_of_nodes(clauses: Sequence[Clause], context: Context) -> list[LoopConstraints]:
    """Return the loop constraints of all nodes, outermost first; a fanout lies above its component."""
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


def _assembled_level(
    loops: LoopConstraints, keepings: dict[ArchLeaf, Keeping], fanouts: frozenset[ArchLeaf], context: Context
) -> TilingLevel:
    if loops.kind == "spatial":
        rules = spatial_rules(loops, context)
        note_split(loops, rules, context)
        return SpatialLevel(loops, rules)
    keeping = keepings[loops.leaf]
    for what, flags in (("no_reuse", loops.no_reuse), ("rmw_first_update", loops.rmw_first_update)):
        if what not in loops.sweeping:
            _note_idle(flags, what, keeping, context)
    for name, span in loops.rmw_first_update.items():
        if not context.problem.dataspace(name).read_write:
            raise SpecError(f"rmw_first_update of `{name}` has no effect: it is only read", span)
    storage = replace(
        read_storage(loops.leaf, fanouts, context),
        no_temporal_reuse=frozenset(loops.no_reuse),
        rmw_first_update=frozenset(loops.rmw_first_update),
        no_coalesce=frozenset(keeping.no_coalesce),
    )
    return TemporalLevel(loops, storage, keeping)


def node_of(level: TilingLevel) -> StorageLevel | Fanout:
    """Return the node of the canonical architecture, without energies."""
    if isinstance(level, TemporalLevel):
        return level.storage
    loops = level.loops
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
    """Return the least number of compute units in use that the constraints ask for, and where."""
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
        share = as_share(value, "the minimum parallelism, a share of all compute units,", context.variables)
        if least is not None:
            raise SpecError("parallelism is constrained twice", value.span, ((least[1], "the first"),))
        least = (share, value.span)
    units = 1
    for level in assembly.fanouts:
        units *= level.loops.leaf.fanout
    return (Fraction(0), None) if least is None else (least[0] * units, least[1])


def note_overbooking(clauses: Sequence[Clause], context: Context) -> None:
    """Note that ``max_overbooked_proportion`` changes nothing for dense data."""
    for clause in clauses:
        if clause.kind == "overbooked":
            check_keys(clause.node, ("proportion", *ADDRESS_KEYS), "`max_overbooked_proportion`")
            sentence = (
                "max_overbooked_proportion has no effect: tiles of dense data always have their full size"
            )
            context.note(note_at(clause.node.span, sentence))
