"""An architecture as one Einsum sees it: the canonical hierarchy, and what its mapspace allows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Context, Decimal
from fractions import Fraction
from functools import reduce

from model.architecture import (
    AccessEnergy,
    Architecture,
    Bandwidth,
    Compute,
    Direction,
    Fanout,
    Node,
    Packing,
    Port,
    StorageLevel,
)
from model.energy.figures import SpreadError, energy_units, to_units
from model.formats.accelforge.architecture import (
    ACTIONS,
    FREE_ORDER_KEY,
    WrittenArchitecture,
    WrittenNode,
)
from model.formats.accelforge.costs import ComponentCost, ComponentCosts, Costing, TableEntry
from model.formats.accelforge.latency import Action, Seconds, read_latency
from model.formats.accelforge.mapspace import DimensionRules, can_be_used, fanout_rules, keep_rules
from model.formats.accelforge.numbers import not_negative, positive, truth
from model.formats.accelforge.scope import ABOVE, ArchVariables, Kept, Scope, Subject, component_attributes
from model.formats.timeloop.values import MOST_WORDS
from model.mapspace import KeepRules, Mapspace, SpatialRules, TemporalRules, toll_rules
from model.numbers import common_divisor
from model.rules import Quantity, Rule
from model.rules.language import Constant, Operation
from model.text.fields import Names, add_once, as_bool, as_mapping, as_name, as_scalar, given
from model.text.source import MappingNode, ScalarNode, Span, SpecError, TakeNote, note_at, source_ref
from model.text.source import Node as TextNode
from model.wording import listing, suggestion

_PJ_PER_JOULE = 10**12
_DIGITS = Context(prec=20)
"""Of energies that are no finite decimals."""

_LEAK_DIGITS = Context(prec=15)
"""Of leakage per cycle: a cycle is a quotient, often one without end."""

_DIRECTIONS: Mapping[str, Direction] = {"down": "down", "up": "up", "up_and_down": "both"}

LARGEST_FANOUT = 10**9


class OpenFusionError(SpecError):
    """The architecture leaves it open whether intermediates stay on chip."""


@dataclass(frozen=True)
class Common:
    """What several Einsums are to have in common.

    Parameters
    ----------
    word_bits
        By memory, a number of which the bits of all values are multiples.
    units_per_pj
        Units of energy in a picojoule, at the least.
    """

    word_bits: Mapping[str, Fraction] = field(default_factory=dict)
    units_per_pj: int = 1


@dataclass(frozen=True)
class Setting:
    """What is the same for all Einsums.

    Parameters
    ----------
    arch, table
        The architecture as it is written, and the costs of its components.
    variables
        Those of the top level, evaluated.
    stored_outside
        Whether the outermost memory keeps every tensor, though the architecture leaves some open.
    any_order, free_order
        Whether the order of memories may be free, and where the mapper's settings say that it is, of all.
    fused
        Whether it may be open what the outermost memory keeps of the intermediates.
    kept
        Dataspaces that a given mapping keeps, by memory; empty without one.
    common
        What all Einsums are to have in common; nothing unless they are fused.
    """

    arch: WrittenArchitecture
    table: ComponentCosts | None
    variables: Names
    stored_outside: bool = False
    any_order: bool = False
    free_order: Span | None = None
    fused: bool = False
    kept: Mapping[str, frozenset[str]] = field(default_factory=dict)
    common: Common = Common()


@dataclass(frozen=True)
class OnEinsum:
    """The mapspace of one Einsum, and what of the architecture no search knows, one error for each.

    Parameters
    ----------
    keeps_rest
        Whether the second memory keeps each tensor that the outermost one does not.
    """

    mapspace: Mapspace
    compute_place: Span
    unsearchable: tuple[SpecError, ...] = ()
    keeps_rest: bool = False


def on_einsum(setting: Setting, subject: Subject, note: TakeNote) -> OnEinsum:
    """Evaluate an architecture for one Einsum.

    Raises
    ------
    SpecError
        For whatever is wrong or not modelled, at its place.
    """
    return _Reading(setting, subject, note).result()


@dataclass(frozen=True)
class _Level:
    """A memory with what its figures are made of, before energies have a common unit."""

    level: StorageLevel
    joules: Mapping[str, Fraction]  # per word read and written
    leak_w: Fraction
    cost: ComponentCost


class _Reading:
    """One architecture, one Einsum."""

    def __init__(self, setting: Setting, subject: Subject, note: TakeNote) -> None:
        self._setting, self._subject, self._note = setting, subject, note
        values = ArchVariables(setting.arch, subject.names, setting.variables)
        self._scope = Scope(subject.names, values)
        self._entries: Mapping[str, TableEntry] = (
            {} if setting.table is None else setting.table.of(setting.arch.name)
        )
        self._unsearchable: list[SpecError] = []
        self._keeps_rest = False
        self._costs: dict[str, ComponentCost] = {}
        self._idle: set[str] = set()  # tolls that nothing passes
        self._free: dict[str, Span] = {}  # memories in any order, and what says so
        self._passed: set[str] = set()  # all tolls so far
        self._usage: list[tuple[str, int, DimensionRules]] = []  # of each fanout on the way to the compute

    def result(self) -> OnEinsum:
        """Return the mapspace."""
        arch = self._setting.arch
        compute = self._compute()
        chain = [node for node in arch.chain(compute.name) if node is compute or self._is_enabled(node)]
        self._check_chain(chain)
        cycle_s = self._cycle(compute)
        nodes: list[Fanout | _Level] = []
        spatial: list[SpatialRules] = []
        rules_of: list[tuple[TemporalRules, KeepRules]] = []
        gates: list[bool] = []
        for node in chain:
            fanouts = list(self._fanouts(node))
            nodes += [fanout for fanout, _, _ in fanouts]
            spatial += [rules for _, rules, _ in fanouts]
            gates += [is_gate for _, _, is_gate in fanouts]
            kept = self._held(node, is_outermost=not rules_of)
            if kept is None:
                continue
            level = self._level(node, kept, cycle_s)
            nodes.append(
                replace(level, level=replace(level.level, gating_fanouts=_gated_fanouts(gates, node)))
            )
            rules_of.append(self._rules(node, level.level, kept))
        self._check_gating(gates, compute)
        architecture = self._architecture(nodes, compute, cycle_s, chain)
        self._check_usage()
        mapspace = Mapspace(
            problem=self._subject.problem,
            architecture=architecture,
            temporal=tuple(loops for loops, _ in rules_of),
            spatial=tuple(spatial),
            keep=tuple(keep for _, keep in rules_of),
            objectives=("edp",) if cycle_s else ("energy",),
            rules=tuple(self._usage_rules()),
            free_order=self._free_order(architecture),
        )
        return OnEinsum(mapspace, compute.span, tuple(self._unsearchable), self._keeps_rest)

    def _held(self, node: WrittenNode, is_outermost: bool) -> Kept | None:
        """Return what a memory keeps or a toll lets pass; None of nodes that are neither, and idle tolls."""
        if node.kind == "Memory":
            return self._kept(node, is_outermost)
        paying = self._paying(node) if node.kind == "Toll" else None
        if paying is not None and not paying.certain:
            self._idle.add(node.name)
            return None
        return paying

    def _rules(self, node: WrittenNode, level: StorageLevel, kept: Kept) -> tuple[TemporalRules, KeepRules]:
        keep = keep_rules(node, kept, self._subject)
        if level.tolls:
            return toll_rules(level, self._subject.problem, keep.source)
        return TemporalRules(), keep

    def _compute(self) -> WrittenNode:
        """Return the compute that is enabled for the Einsum; a copy needs none, and has the first."""
        computes = [node for node in self._setting.arch.nodes() if node.kind == "Compute"]
        enabled = [node for node in computes if self._is_enabled(node)]
        name = self._subject.einsum.name
        if self._subject.einsum.is_copy_operation and len(enabled) != 1:
            return (enabled or computes)[0]
        if not enabled:
            related = tuple((_enabled_place(node), "another one") for node in computes[1:])
            message = f"no compute is enabled for Einsum `{name}`"
            raise SpecError(message, _enabled_place(computes[0]), related)
        if len(enabled) > 1:
            first, second = enabled[:2]
            message = f"`{first.name}` and `{second.name}` are both enabled for Einsum `{name}`"
            hint = "distinguish them, for example by `enabled: len(All) == 3`"
            raise SpecError(message, _enabled_place(second), ((_enabled_place(first), "the other"),), hint)
        return enabled[0]

    def _is_enabled(self, node: WrittenNode) -> bool:
        written = node.get("enabled")
        return written is None or truth(
            written, f"`enabled` of `{node.name}`", self._scope, self._scope.values
        )

    def _check_chain(self, chain: Sequence[WrittenNode]) -> None:
        first = next((node for node in chain if node.kind != "Container" or node.spatial), None)
        if first is None or first.kind != "Memory" or first.spatial:
            where = chain[0] if first is None else first
            message = f"the outermost node is `{where.name}`: it must be a memory that exists once"
            raise SpecError(message, where.span)

    def _fanouts(self, node: WrittenNode) -> Iterator[tuple[Fanout, SpatialRules, bool]]:
        for dimension in node.spatial:
            name = f"{node.name}.{dimension.name}"
            size = self._size(dimension.node.require("fanout"), f"the fanout `{name}`")
            rules = fanout_rules(name, size, dimension, self._scope, self._subject, self._note)
            self._usage.append((name, size, rules))
            place_ref = source_ref(dimension.span)
            fanout = Fanout(
                name, mesh_x=size, no_multicast=rules.no_multicast, mesh_sources=(place_ref, place_ref)
            )
            yield fanout, rules.rules, rules.is_gate

    def _usage_rules(self) -> Iterator[Rule]:
        """Yield what ``min_usage`` asks of several rank variables together; of one it is a least factor."""
        for name, _, rules in self._usage:
            least = rules.least_used
            if least is None or len(least.rank_variables) == 1:
                continue
            condition = Operation(">=", (Quantity("instances", name), Constant(Fraction(least.instances))))
            yield Rule(condition, source=source_ref(least.written.span))

    def _check_usage(self) -> None:
        """Leave it open what ``min_usage`` means where fanouts compete for loops."""
        used = [(name, rules.least_used) for name, _, rules in self._usage if rules.least_used is not None]
        fanouts = [
            (size, 1 if rules.least_used is None else rules.least_used.instances, rules.factors)
            for _, size, rules in self._usage
        ]
        if can_be_used(fanouts, self._subject.problem.bound):
            return
        for name, least in used:
            message = f"`min_usage` of `{name}` is out of reach together with that of other dimensions"
            hint = "which of them goes first is not modelled: leave one out, or bound loops by `loop_bounds`"
            self._unsearchable.append(SpecError(message, least.written.span, hint=hint))

    def _size(self, node: TextNode, what: str) -> int:
        size = positive(node, what, self._scope, self._scope.values)
        if size.denominator != 1 or size > LARGEST_FANOUT:
            message = f"{what} must be a whole number up to {LARGEST_FANOUT:,}, but is {float(size):g}"
            raise SpecError(message, node.span)
        return int(size)

    def _kept(self, node: WrittenNode, is_outermost: bool) -> Kept:
        """Return what a memory must and may keep, and make its name known."""
        everything = self._scope.everything("tensors").members
        kept = self._written_kept(node, everything)
        if is_outermost and self._setting.stored_outside:
            kept = Kept(kept.possible, kept.possible)
        elif is_outermost and self._intermediates - kept.certain and not self._setting.fused:
            self._leave_open(node, self._intermediates - kept.certain)
        chosen = self._setting.kept.get(node.name)
        self._scope.memories[node.name] = kept if chosen is None else self._chosen(chosen)
        return kept

    def _paying(self, node: WrittenNode) -> Kept:
        """Return the tensors that pay a toll, of those that memories farther out keep.

        What only may pass it does not: nothing is gained that way.
        """
        everything = self._scope.everything("tensors").members
        written, outside = self._written_kept(node, everything), self._kept_outside()
        if written.free:
            sentence = "{} may pass `{}`, but need not: that would only cost more"
            self._note(note_at(node.span, sentence, listing(sorted(written.free)), node.name))
        paying = Kept(written.certain & outside, written.certain & outside)
        self._scope.memories[node.name] = paying
        self._passed.add(node.name)
        return paying

    def _kept_outside(self) -> frozenset[str]:
        """Return the tensors that memories farther out keep, or may keep in some fused mapping."""
        if self._setting.fused:
            memories = self._scope.memories.items()
            return frozenset().union(*(own.possible for name, own in memories if name not in self._passed))
        above = self._scope.find(ABOVE)
        return frozenset() if above is None else above.members

    def _tolls(self, node: WrittenNode, kept: Kept) -> tuple[tuple[str, Direction], ...]:
        """Return the dataspaces that pass a toll, and in which direction they pay."""
        direction = node.node.require("direction")
        if isinstance(direction, ScalarNode):
            given_to = dict.fromkeys(kept.certain, _direction(direction))
        else:
            given_to = self._directions(node, as_mapping(direction, f"`direction` of `{node.name}`"))
        for tensor in sorted(kept.certain - given_to.keys()):
            raise SpecError(f"`direction` of `{node.name}` does not mention `{tensor}`", direction.span)
        return tuple(
            (space, given_to[tensor])
            for tensor in sorted(kept.certain)
            for space in self._subject.dataspaces[tensor]
        )

    def _directions(self, node: WrittenNode, written: MappingNode) -> dict[str, Direction]:
        what = f"`direction` of `{node.name}`"
        found: dict[str, Direction] = {}
        places: dict[str, Span] = {}
        for key, value in written.entries:
            for tensor in sorted(self._scope.tensors(key, what)):
                add_once(places, tensor, key.span, f"{what} covers `{tensor}` twice")
                found[tensor] = _direction(value)
        return found

    def _chosen(self, dataspaces: frozenset[str]) -> Kept:
        """Return the tensors that a mapping keeps, with all of their dataspaces."""
        known = self._subject.dataspaces
        tensors = frozenset(tensor for tensor, spaces in known.items() if dataspaces.issuperset(spaces))
        return Kept(tensors, tensors)

    @property
    def _intermediates(self) -> frozenset[str]:
        found = self._scope.find("Intermediates")
        return frozenset() if found is None else found.members

    def _leave_open(self, node: WrittenNode, tensors: frozenset[str]) -> None:
        keep = None if node.tensors is None else given(node.tensors, "keep")
        span = node.span if keep is None else keep.span
        message = (
            f"whether `{node.name}` keeps {listing(sorted(tensors))}, and so whether Einsums are fused, is "
            "left open; fused mappings are not searched here"
        )
        hint = "--no-fuse keeps every tensor there, as in unfused mappings; `network` searches fused ones"
        self._unsearchable.append(OpenFusionError(message, span, hint=hint))

    def _written_kept(self, node: WrittenNode, everything: frozenset[str]) -> Kept:
        self._read_order(node)
        must, may = (self._written_set(node, key) for key in ("keep", "may_keep"))
        nothing = Kept(frozenset(), frozenset())
        if may is None:
            may = Kept(everything, everything) if must is None else nothing
        must = must or nothing
        return Kept(must.certain, must.possible | may.possible)

    def _written_set(self, node: WrittenNode, key: str) -> Kept | None:
        """Return what a set is for every choice farther out, None where it is not written."""
        written = None if node.tensors is None else given(node.tensors, key)
        if written is None:
            return None
        kept = self._scope.varying(written, f"`{key}` of `{node.name}`")
        if kept.free and self._stores_the_rest(written):
            self._keeps_rest |= key == "keep"
        elif kept.free:
            message = (
                f"the set of tensors that `{node.name}` keeps depends on the tensors "
                "that outer memories keep in the mapping"
            )
            hint = "name the tensors; --no-fuse fixes the tensors that the outermost memory keeps"
            self._unsearchable.append(SpecError(message, written.span, hint=hint))
        return kept

    def _stores_the_rest(self, written: TextNode) -> bool:
        """Whether a set is what the outermost memory leaves, which the next one stores in fused mappings."""
        outside = [name for name in self._scope.memories if name not in self._passed]
        if not self._setting.fused or len(outside) != 1:
            return False
        text = written.text.replace(" ", "") if isinstance(written, ScalarNode) else ""
        return text in (f"~{outside[0]}", f"~{outside[0]}.tensors")

    def _read_order(self, node: WrittenNode) -> None:
        written = None if node.tensors is None else given(node.tensors, FREE_ORDER_KEY)
        is_free = written is not None and not as_bool(written, f"`{FREE_ORDER_KEY}`")
        if is_free and node.kind == "Toll" and written is not None:
            message = f"`{FREE_ORDER_KEY}: False` is not modelled of the toll `{node.name}`"
            raise SpecError(message, written.span)
        place = written.span if is_free and written is not None else self._setting.free_order
        if place is not None and node.kind == "Memory":
            self._free[node.name] = place

    def _free_order(self, architecture: Architecture) -> frozenset[str]:
        """Return the memories that may lie in any order; there is one order of a single memory on chip."""
        on_chip = [level.name for level in architecture.on_chip]
        free = {name: place for name, place in self._free.items() if name in on_chip and len(on_chip) > 1}
        if self._setting.any_order:
            return frozenset(free)
        for name, place in list(free.items())[:1]:
            message = f"`{FREE_ORDER_KEY}: False` of `{name}`: this command does not search any order"
            hint = "`map --einsum` and `network` do, but not several searches, CP-SAT or Timeloop's form"
            self._unsearchable.append(SpecError(message, place, hint=hint))
        return frozenset()

    def _cost(
        self, node: WrittenNode, bits: Mapping[str, Fraction], size_bits: Fraction | None
    ) -> ComponentCost:
        if node.name not in self._costs:
            costing = Costing(
                component=node,
                names=self._scope,
                values=self._scope.values,
                entry=self._entries.get(node.name),
                attributes=lambda: component_attributes(self._setting.arch, node, self._scope),
                bits=bits,
                size_bits=size_bits,
                note=self._note,
            )
            self._costs[node.name] = costing.cost()
        return self._costs[node.name]

    def _seconds(self, node: WrittenNode, cost: ComponentCost) -> tuple[Seconds, ...]:
        """Return the sums of which the largest is the component's latency, in seconds per call."""
        actions = [
            Action(name, action.throughput_per_s, {"energy": action.energy_j})
            for name, action in cost.actions.items()
        ]
        written = node.get("total_latency")
        text = None if written is None else as_scalar(written, f"`total_latency` of `{node.name}`")
        return read_latency(text, actions, self._scope.values)

    def _scale(self, node: WrittenNode, key: str) -> Fraction:
        written = node.get(key)
        what = f"`{key}` of `{node.name}`"
        return Fraction(1) if written is None else positive(written, what, self._scope, self._scope.values)

    def _cycle(self, compute: WrittenNode) -> Fraction:
        """Return the seconds that a step of the arithmetic takes."""
        self._check_first_write(compute)
        cost = self._cost(compute, {}, None)
        sums = self._seconds(compute, cost)
        slowest = max((value for seconds in sums for _, value in seconds), default=Fraction(0))
        return slowest * self._scale(compute, "actions_scale")

    def _check_first_write(self, node: WrittenNode) -> None:
        key = "skip_initial_output_write"
        written = node.get(key)
        if written is not None and not truth(written, f"`{key}`", self._scope, self._scope.values):
            message = f"`{key}: False` is not modelled: first values of outputs would be fetched as well"
            raise SpecError(message, written.span)

    def _level(self, node: WrittenNode, kept: Kept, cycle_s: Fraction) -> _Level:
        self._check_first_write(node)
        size = self._bits(node)
        rows = _MemoryRows(
            node, self._subject, self._scope, kept, self._setting.common.word_bits.get(node.name)
        )
        cost = self._cost(node, rows.bits_per_action, size)
        calls = {
            action: rows.calls_per_word[action] * self._scale(node, "actions_scale")
            for action in ACTIONS[node.kind]
        }
        words = None if size is None else math.floor(size / rows.word_bits)
        written = node.get("size")
        if words is not None and words > MOST_WORDS:
            place = node.span if written is None else written.span
            raise SpecError(f"`{node.name}` is too large: more than 2^56 words", place, hint="write `inf`")
        level = StorageLevel(
            name=node.name,
            size_words=words,
            word_bits=int(rows.word_bits) if rows.word_bits.denominator == 1 else rows.word_bits,
            packing=rows.packing,
            bandwidth_scale=rows.bandwidth_scale,
            area_um2=cost.area_um2,
            area_source=cost.area_source,
            tolls=self._tolls(node, kept) if node.kind == "Toll" else (),
            size_source=None if written is None else source_ref(written.span),
        )
        return _Level(
            level=self._timed(level, node, cost, calls, cycle_s),
            joules={action: cost.actions[action].energy_j * calls[action] for action in calls},
            leak_w=cost.leak_w,
            cost=cost,
        )

    def _bits(self, node: WrittenNode) -> Fraction | None:
        """Return the size of a memory, None where there is no limit, as for a toll."""
        written = node.get("size")
        what = f"the size of `{node.name}` in bits"
        return None if written is None else not_negative(written, what, self._scope, self._scope.values)

    def _timed(
        self,
        level: StorageLevel,
        node: WrittenNode,
        cost: ComponentCost,
        calls: Mapping[str, Fraction],
        cycle_s: Fraction,
    ) -> StorageLevel:
        """Return a level with its bandwidths in words per cycle."""
        written = node.get("total_latency")
        for seconds in self._seconds(node, cost):
            per_word = {name: value * calls[name] for name, value in seconds if value}
            if level.tolls and per_word:
                # What goes up is a read as well.
                per_word["write"] = per_word["read"]
            if not per_word:
                continue
            if cycle_s == 0:
                message = f"`{node.name}` takes time, but compute takes none, which is not modelled"
                hint = "give the compute a finite throughput"
                raise SpecError(message, node.span if written is None else written.span, hint=hint)
            level = _with_port(level, {name: value / cycle_s for name, value in per_word.items()})
        return level

    def _check_gating(self, gates: Sequence[bool], compute: WrittenNode) -> None:
        leak_w = self._costs[compute.name].leak_w
        if any(gates) and leak_w:
            message = f"power gating of `{compute.name}`, which leaks, is not modelled"
            raise SpecError(message, compute.span)

    def _architecture(
        self,
        nodes: Sequence[Fanout | _Level],
        compute: WrittenNode,
        cycle_s: Fraction,
        chain: Sequence[WrittenNode],
    ) -> Architecture:
        cost = self._costs[compute.name]
        joules = cost.actions["compute"].energy_j * self._scale(compute, "actions_scale")
        idle_w, idle = self._other_leakage(compute, chain)
        levels = [node for node in nodes if isinstance(node, _Level)]
        leaks = [level.leak_w + (idle_w if level is levels[0] else 0) for level in levels]
        energies = [joules, *(value for level in levels for value in level.joules.values())]
        leaks_pj = [_picojoules(leak * cycle_s, _LEAK_DIGITS) for leak in leaks]
        figures = [*map(_picojoules, energies), *leaks_pj]
        try:
            units = max(energy_units(figures), self._setting.common.units_per_pj)
        except SpreadError as error:
            message = f"energies of `{self._setting.arch.name}` have no unit in common: {error}"
            raise SpecError(
                message, self._setting.arch.span, hint="write 0 for small ones that do not matter"
            ) from None
        priced = {
            level.level.name: _level_with_energy(level, leak_pj, units, idle if level is levels[0] else "")
            for level, leak_pj in zip(levels, leaks_pj, strict=True)
        }
        canonical: tuple[Node, ...] = tuple(
            priced[node.level.name] if isinstance(node, _Level) else node for node in nodes
        )
        return Architecture(
            name=self._setting.arch.name,
            nodes=canonical,
            compute=Compute(
                name=compute.name,
                energy=to_units(_picojoules(joules), units),
                energy_source=cost.actions["compute"].source,
                is_given=cost.actions["compute"].source != "estimated",
                area_um2=cost.area_um2,
                area_source=cost.area_source,
            ),
            units_per_pj=units,
            cycle_s=cycle_s,
            is_accelforge=True,
        )

    def _other_leakage(self, compute: WrittenNode, chain: Sequence[WrittenNode]) -> tuple[Fraction, str]:
        """Return the watts of the arithmetic and of what the Einsum does not use, and whose they are."""
        total, names = Fraction(0), list[str]()
        used = {node.name for node in chain if node is not compute} - self._idle
        for node, instances in self._instances(self._setting.arch.items, 1):
            if node.kind == "Container" or node.name in used:
                continue
            leak_w = self._idle_cost(node).leak_w * instances
            total += leak_w
            names += [node.name] if leak_w else []
        return total, f", and of {listing(names)}" if names else ""

    def _idle_cost(self, node: WrittenNode) -> ComponentCost:
        if node.kind != "Memory":
            return self._cost(node, {}, None)
        size = self._bits(node)
        rows = _MemoryRows(node, self._subject, self._scope, Kept(frozenset(), frozenset()))
        return self._cost(node, rows.bits_per_action, size)

    def _instances(self, items: Iterable[object], above: int) -> Iterator[tuple[WrittenNode, int]]:
        """Yield the leaves with the number of their instances."""
        for item in items:
            if not isinstance(item, WrittenNode):
                yield from self._instances(item.items, above)  # type: ignore[attr-defined]
                continue
            sizes = [
                self._size(own.node.require("fanout"), f"the fanout `{own.name}`") for own in item.spatial
            ]
            count = above * math.prod(sizes)
            yield item, count
            above = above if item.kind == "Compute" else count


def _direction(node: TextNode) -> Direction:
    written = as_name(node, "`direction`")
    if written not in _DIRECTIONS:
        hint = suggestion(written, _DIRECTIONS, "known are")
        raise SpecError(f"unknown direction `{written}`", node.span, hint=hint)
    return _DIRECTIONS[written]


def _enabled_place(node: WrittenNode) -> Span:
    written = node.get("enabled")
    return node.span if written is None else written.span


def _gated_fanouts(gates: Sequence[bool], node: WrittenNode) -> int:
    """Return how many fanouts above a node gate its power; those inside of the last gate do not."""
    count = sum(gates)
    if any(gates[count:]):
        message = f"`power_gateable` inside a fanout that is not, above `{node.name}`, is not modelled"
        raise SpecError(message, node.span)
    return count


def _with_port(level: StorageLevel, cycles: Mapping[str, Fraction]) -> StorageLevel:
    """Return a level that also needs so many cycles per word read and written."""
    read, write = cycles.get("read", Fraction(0)), cycles.get("write", Fraction(0))
    if read and write and read != write:
        return replace(level, ports=(*level.ports, Port(read, write)))
    kind: Bandwidth = "shared_bandwidth"
    if read != write:
        kind = "read_bandwidth" if read else "write_bandwidth"
    rate, known = 1 / max(read, write), level.bandwidth(kind)
    return level.with_bandwidth(kind, rate if known is None else min(rate, known))


def _picojoules(joules: Fraction, digits: Context = _DIGITS) -> Decimal:
    value = joules * _PJ_PER_JOULE
    return digits.divide(Decimal(value.numerator), Decimal(value.denominator))


def _level_with_energy(level: _Level, leak_pj: Decimal, units: int, others: str) -> StorageLevel:
    """Return a level with its energies; `others` names components whose leakage is counted with its own."""
    names = {"read": "read", "fill": "write", "update": "write"}
    if level.level.tolls:
        names = {"read": "read", "update": "read"}
    figures = {name: to_units(_picojoules(level.joules[action]), units) for name, action in names.items()}
    sources = {name: level.cost.actions[action].source for name, action in names.items()}
    sources["leak"] = f"{level.cost.leak_source}{others}"
    energy = AccessEnergy(
        **figures,
        leak_per_cycle=to_units(leak_pj, units),
        sources=tuple(sources.items()),
        given=frozenset(name for name, source in sources.items() if source != "estimated"),
    )
    return replace(level.level, energy=energy)


class _MemoryRows:
    """How values lie in a memory, and how many calls of its actions they take."""

    def __init__(
        self,
        node: WrittenNode,
        subject: Subject,
        scope: Scope,
        kept: Kept,
        shared_bits: Fraction | None = None,
    ) -> None:
        self._node, self._subject, self._scope = node, subject, scope
        self._bits = self._value_bits()
        actions = ACTIONS[node.kind]
        self.bits_per_action = {action: self._action_bits(action) for action in actions}
        tensors = sorted(kept.possible) or []
        sizes = {tensor: self._bits[tensor] for tensor in tensors}
        calls = {action: {tensor: self._calls(action, tensor) for tensor in tensors} for action in actions}
        units = {action: _common_divisor(calls[action].values()) for action in calls}
        weights = {tensor: calls["read"][tensor] / units["read"] for tensor in tensors}
        self._check_ratio(calls, units, weights)
        self.word_bits = _common_divisor([*sizes.values(), *filter(None, [shared_bits])])
        self.calls_per_word = units
        is_even = {*sizes.values()} <= {self.word_bits} and len({*weights.values()}) < 2
        spaces = [] if is_even else [(own, x) for x in tensors for own in subject.dataspaces[x]]
        self.packing = tuple(
            Packing(space, 1, int(sizes[tensor] / self.word_bits), int(weights[tensor]))
            for space, tensor in spaces
        )
        self.bandwidth_scale = tuple((space, weights[tensor]) for space, tensor in spaces)

    def _value_bits(self) -> dict[str, Fraction]:
        """Return the bits of a value of each tensor: the memory's own, else the workload's."""
        bits = {access.tensor: Fraction(access.bits_per_value) for access in self._subject.einsum.accesses}
        return {**bits, **self._by_tensor(self._node.get("bits_per_value"), "bits_per_value")}

    def _by_tensor(self, node: TextNode | None, key: str) -> dict[str, Fraction]:
        """Return the numbers that set expressions give to tensors."""
        what = f"`{key}` of `{self._node.name}`"
        entries = () if node is None else as_mapping(node, what).entries
        members = [(name, self._scope.tensors(name, what)) for name, _ in entries]
        places: dict[str, Span] = {}
        for name, tensor in ((name, tensor) for name, own in members for tensor in sorted(own)):
            add_once(places, tensor, name.span, f"{what} covers `{tensor}` twice")
        return {
            tensor: positive(value, what, self._scope, self._scope.values)
            for (_, own), (_, value) in zip(members, entries, strict=True)
            for tensor in own
        }

    def _action_bits(self, action: str) -> Fraction:
        own = self._node.action(action)
        written = None if own is None else given(own, "bits_per_action")
        written = self._node.get("bits_per_action") if written is None else written
        what = f"`bits_per_action` of `{self._node.name}`"
        return Fraction(1) if written is None else positive(written, what, self._scope, self._scope.values)

    def _calls(self, action: str, tensor: str) -> Fraction:
        """Return the calls of an action that one value takes; fractions of a call count."""
        own = self._node.action(action)
        for written in (
            None if own is None else given(own, "values_per_action"),
            self._node.get("values_per_action"),
        ):
            values = self._by_tensor(written, "values_per_action")
            if tensor in values:
                return 1 / values[tensor]
        return self._bits[tensor] / self.bits_per_action[action]

    def _check_ratio(
        self,
        calls: Mapping[str, Mapping[str, Fraction]],
        units: Mapping[str, Fraction],
        weights: Mapping[str, Fraction],
    ) -> None:
        """Check that tensors differ by the same factors in reads and in writes."""
        for tensor, weight in weights.items():
            if any(calls[action][tensor] / units[action] != weight for action in calls):
                message = (
                    f"tensors of `{self._node.name}` have different shares of its reads and of its writes"
                )
                raise SpecError(f"{message}, which is not modelled", self._node.span)


def _common_divisor(numbers: Iterable[Fraction]) -> Fraction:
    """Return the largest number of which all are multiples, 1 for none."""
    found = list(numbers)
    if not found:
        return Fraction(1)
    return reduce(common_divisor, found)
