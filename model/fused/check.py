"""Whether a fused mapping is one: the tree, its loops, and the places of tiles."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, product
from typing import NamedTuple

from model.architecture import Architecture, Fanout, StorageLevel
from model.extents import tiles_of
from model.fused.cascade import Access, Cascade, CascadeEinsum, lone_dims
from model.fused.mapping import Body, FusedMapping, Held, LeafPath, PrivateNest, SharedLoop, Stored, leaves
from model.fused.visits import Visits, multi_term_dims, path_dims, slides
from model.mapping import FanoutMapping, StorageMapping
from model.wording import listing

MOST_PARTS = 1 << 20
"""Parts of a dimension that shared loops select, each of which is looked at."""


class FusedMappingError(ValueError):
    """A fused mapping breaks a rule.

    Parameters
    ----------
    message
        Says which, for people.
    subject
        What breaks it: a part of the mapping, for readers that know where it is written.
    """

    def __init__(self, message: str, subject: object = None) -> None:
        super().__init__(message)
        self.subject = subject


def check_fused(cascade: Cascade, mapping: FusedMapping) -> None:
    """Check that a mapping is one of the cascade (docs/fusion.md, "What a fused mapping is").

    Limits of the hardware are not checked here, nor are the constraints of a mapspace.

    Raises
    ------
    FusedMappingError
        If it is not.
    """
    check_tree(cascade, mapping)
    visits = Visits(cascade, mapping)
    for stored in mapping.stored:
        _check_stored(visits, stored)
    for place in range(len(cascade.einsums)):
        _check_einsum(visits, place)


def check_tree(cascade: Cascade, mapping: FusedMapping) -> None:
    """Check the tree and its loops alone.

    Raises
    ------
    FusedMappingError
        If they are none of the cascade.
    """
    _check_leaves(cascade, mapping)
    for body, _ in mapping.bodies:
        check_body(cascade, body)
    for place in range(len(cascade.einsums)):
        _check_trips(cascade, mapping, place)
    for tensor, writer in cascade.writers.items():
        for reader in cascade.readers(tensor):
            _check_window_moves(cascade, mapping, tensor, mapping.paths[writer], reader)


def _check_trips(cascade: Cascade, mapping: FusedMapping, place: int) -> None:
    """Check that no loop has more trips than a largest part has indices, and that parts are not many."""
    einsum, path = cascade.einsums[place], mapping.paths[place]
    left, parts = dict(einsum.problem.bound), dict.fromkeys(einsum.problem.dims, 1)
    for loop in path.loops:
        dim = loop.dim(einsum.name)
        if loop.trips > left[dim]:
            text = f"the shared loops over `{dim}` of `{einsum.name}` leave parts of {left[dim]:,}"
            raise FusedMappingError(f"{text}, which is less than {loop.trips:,} trips", loop)
        left[dim] = tiles_of(left[dim], loop.trips)
        parts[dim] *= loop.trips
        if parts[dim] > MOST_PARTS:
            raise FusedMappingError(f"more than {MOST_PARTS:,} iterations over `{dim}`", loop)


def _check_window_moves(
    cascade: Cascade, mapping: FusedMapping, tensor: str, writer: LeafPath, reader: int
) -> None:
    """Check that shared loops move each window along one of its dimensions only."""
    einsum, path = cascade.einsums[reader], mapping.paths[reader]
    looped = path_dims(path, path.shared(writer))
    spaces = [einsum.space(access.dataspace) for access in einsum.accesses_of(tensor)]
    for terms in (terms for space in spaces for terms in space.ranks):
        moving = [term.dim for term in terms if term.dim in looped]
        if len(moving) > 1:
            text = f"shared loops over {listing(moving)} of `{einsum.name}` move one window of `{tensor}`"
            raise FusedMappingError(text, path.leaf)


def _check_leaves(cascade: Cascade, mapping: FusedMapping) -> None:
    names = [path.leaf.einsum for path in mapping.paths]
    expected = [einsum.name for einsum in cascade.einsums]
    if names != expected:
        raise FusedMappingError(
            f"the leaves are {listing(names)}, the Einsums are {listing(expected)}", mapping
        )
    tensors = [stored.tensor for stored in mapping.stored]
    twice = next((stored for stored in mapping.stored if tensors.count(stored.tensor) > 1), None)
    if twice is not None:
        raise FusedMappingError(f"`{twice.tensor}` is stored twice", twice)


def check_body(cascade: Cascade, body: Body) -> None:
    """Check one body; error as of `check_tree`."""
    below = [cascade.place(leaf.einsum) for leaf in leaves(body)]
    if len(below) < 2:
        raise FusedMappingError("a fused group has at least two Einsums", body)
    if not body.loops:
        raise FusedMappingError("a fused group has at least one loop", body)
    handed = handed_over(cascade, below)
    _check_connected(cascade, body, below, handed)
    if len({cascade.einsums[place].n_instances for place in below}) > 1:
        raise FusedMappingError("the Einsums of a fused group do not run equally often (`n_instances`)", body)
    for loop in body.loops:
        _check_loop(cascade, loop, below, handed)


def handed_over(cascade: Cascade, places: Sequence[int]) -> list[str]:
    """Return the tensors that one of some Einsums writes and another one reads."""
    return [
        tensor
        for tensor, writer in cascade.writers.items()
        if writer in places and set(cascade.readers(tensor)).intersection(places)
    ]


def _check_connected(cascade: Cascade, body: Body, below: list[int], handed: list[str]) -> None:
    groups = [{user for user in cascade.users[tensor] if user in below} for tensor in handed]
    reached, before = {below[0]}, set[int]()
    while reached != before:
        before = set(reached)
        reached.update(*(group for group in groups if group & before))
    if reached != set(below):
        apart = listing(cascade.einsums[place].name for place in below if place not in reached)
        raise FusedMappingError(f"no tensor connects {apart} with the other Einsums of the fused group", body)


def _check_loop(cascade: Cascade, loop: SharedLoop, below: list[int], handed: list[str]) -> None:
    if loop.trips < 2:
        raise FusedMappingError("a shared loop has at least 2 iterations", loop)
    names = [cascade.einsums[place].name for place in below]
    if sorted(names) != sorted(name for name, _ in loop.dims):
        raise FusedMappingError(f"a shared loop runs over one dimension of each of {listing(names)}", loop)
    for place in below:
        einsum = cascade.einsums[place]
        if loop.dim(einsum.name) not in einsum.problem.dims:
            raise FusedMappingError(f"`{loop.dim(einsum.name)}` is not a dimension of `{einsum.name}`", loop)
        if einsum.is_copy:
            _check_copied_part(einsum, loop)
    for tensor in handed:
        writer = cascade.einsums[cascade.writers[tensor]]
        rank = _written_rank(writer, tensor, loop)
        for place in (place for place in cascade.readers(tensor) if place in below):
            _check_reader(cascade.einsums[place], tensor, rank, loop)


def _check_copied_part(copy: CascadeEinsum, loop: SharedLoop) -> None:
    """Check that a loop parts what a copy reads and what it writes alike: so each word moves once."""
    dim = loop.dim(copy.name)
    for access in copy.accesses:
        ranks = copy.space(access.dataspace).ranks
        using = [terms for terms in ranks if dim in [term.dim for term in terms]]
        if len(using) != 1 or len(using[0]) > 1 or using[0][0].coefficient != 1:
            text = f"`{dim}` of the copy `{copy.name}` does not index a rank of `{access.tensor}` by itself"
            raise FusedMappingError(text, loop)


def _written_rank(writer: CascadeEinsum, tensor: str, loop: SharedLoop) -> str:
    """Return the rank of a tensor that a loop runs over in its producer."""
    dim = loop.dim(writer.name)
    (access,) = writer.accesses_of(tensor)
    ranks = writer.space(access.dataspace).ranks
    found = [name for name, terms in zip(access.ranks, ranks, strict=True) if [t.dim for t in terms] == [dim]]
    whole = dim not in multi_term_dims(writer, access.dataspace)
    unit = all(t.coefficient == 1 for terms in ranks for t in terms if t.dim == dim)
    if not (found and whole and unit):
        text = f"`{dim}` of `{writer.name}` does not index a rank of `{tensor}` by itself"
        raise FusedMappingError(f"{text}, which is passed within the fused group", loop)
    return found[0]


def _check_reader(reader: CascadeEinsum, tensor: str, rank: str, loop: SharedLoop) -> None:
    dim = loop.dim(reader.name)
    for access in reader.accesses_of(tensor):
        ranks = dict(zip(access.ranks, reader.space(access.dataspace).ranks, strict=True))
        indexed = [name for name, terms in ranks.items() if dim in [term.dim for term in terms]]
        rising = all(term.coefficient > 0 for term in ranks.get(rank, ()) if term.dim == dim)
        if indexed != [rank] or not rising:
            text = f"the loop is over the rank {rank} of `{tensor}`, which `{dim}` of `{reader.name}`"
            raise FusedMappingError(f"{text} does not index, or not alone", loop)


def loop_choices(cascade: Cascade, places: Sequence[int]) -> Iterator[dict[str, str]]:
    """Yield every assignment of a dimension per Einsum that a loop of a body may run over.

    Parameters
    ----------
    places
        The Einsums of the body, two or more. Where tensors that are handed over do not connect them, there
        is no body, and nothing to choose.
    """
    handed = handed_over(cascade, places)
    first = cascade.einsums[places[0]]
    for dim in first.problem.dims:
        found = _extended_assignments(cascade, places, handed, {first.name: dim})
        yield from (dims for dims in found if _is_loop(cascade, dims, list(places), handed))


def _is_loop(cascade: Cascade, dims: dict[str, str], places: list[int], handed: list[str]) -> bool:
    try:
        _check_loop(cascade, SharedLoop(2, tuple(dims.items())), places, handed)
    except FusedMappingError:
        return False
    return True


def _extended_assignments(
    cascade: Cascade, places: Sequence[int], handed: list[str], dims: dict[str, str]
) -> Iterator[dict[str, str]]:
    """Yield assignments for all Einsums that agree with those for some, from tensor to tensor."""
    einsums = [cascade.einsums[place] for place in places]
    if len(dims) == len(einsums):
        yield {einsum.name: dims[einsum.name] for einsum in einsums}
        return
    known, other, tensor = next(
        (
            (known, other, tensor)
            for known, other, tensor in product(einsums, einsums, handed)
            if known.name in dims and other.name not in dims and tensor in known.tensors & other.tensors
        ),
        (einsums[0], einsums[0], ""),
    )
    for dim in _matching(known, other, tensor, dims[known.name]) if tensor else ():
        yield from _extended_assignments(cascade, places, handed, {**dims, other.name: dim})


def _matching(known: CascadeEinsum, other: CascadeEinsum, tensor: str, dim: str) -> tuple[str, ...]:
    """Return the dimensions of an Einsum at the rank of a tensor that a dimension of another one indexes."""
    (own, *_), (theirs, *_) = known.accesses_of(tensor), other.accesses_of(tensor)
    ranks = zip(own.ranks, known.space(own.dataspace).ranks, strict=True)
    name = next((name for name, terms in ranks if dim in [term.dim for term in terms]), None)
    if name not in theirs.ranks:
        return ()
    terms = other.space(theirs.dataspace).ranks[theirs.ranks.index(name)]
    return tuple(term.dim for term in terms)


def _check_stored(visits: Visits, stored: Stored) -> None:
    cascade, mapping = visits.cascade, visits.mapping
    if stored.tensor not in cascade.users:
        raise FusedMappingError(f"no Einsum accesses `{stored.tensor}`", stored)
    users = [mapping.paths[place] for place in cascade.users[stored.tensor]]
    _check_memory(visits, stored)
    ranks = {frozenset(access.ranks) for _, access in accesses_of(cascade, stored.tensor)}
    if len(ranks) > 1:
        raise FusedMappingError(f"some access of `{stored.tensor}` has a fixed index", stored)
    if not 0 <= stored.depth <= min(path.shared(other) for path in users for other in users):
        text = f"not all that access `{stored.tensor}` share the {stored.depth} loops above it"
        raise FusedMappingError(text, stored)
    if stored.tensor in cascade.persistent and stored.depth:
        raise FusedMappingError(f"`{stored.tensor}` is persistent: no loop may be above it", stored)
    if stored.tensor not in (*cascade.intermediates, *cascade.persistent):
        _check_kept_from_outside(cascade, stored)
    if stored.depth:
        check_halo(visits, stored)


def accesses_of(cascade: Cascade, tensor: str) -> Iterator[tuple[CascadeEinsum, Access]]:
    """Yield all accesses of a tensor, each with its Einsum."""
    for einsum in (cascade.einsums[place] for place in cascade.users[tensor]):
        yield from ((einsum, access) for access in einsum.accesses_of(tensor))


def _check_memory(visits: Visits, stored: Stored) -> None:
    for place in visits.cascade.users[stored.tensor]:
        einsum = visits.cascade.einsums[place]
        inner = [level.name for level in einsum.mapspace.architecture.on_chip]
        if stored.memory not in inner:
            raise FusedMappingError(
                f"`{stored.memory}` is none of the inner memories {listing(inner)}", stored
            )


def _check_kept_from_outside(cascade: Cascade, stored: Stored) -> None:
    """Check that the architecture itself keeps a tensor of a single Einsum from the outermost memory."""
    for place in cascade.users[stored.tensor]:
        einsum = cascade.einsums[place]
        names = {access.dataspace for access in einsum.accesses_of(stored.tensor)}
        if not names <= einsum.mapspace.keep[0].bypass:
            raise FusedMappingError(f"`{stored.tensor}` is not passed between Einsums", stored)


def check_halo(visits: Visits, stored: Stored) -> None:
    """Check that a tile which slides is moved by no other loop before it has slid on.

    Raises
    ------
    FusedMappingError
        If it is: what overlaps would be dropped.
    """
    cascade, depth = visits.cascade, stored.depth
    writer = cascade.writers[stored.tensor]
    (written,) = cascade.einsums[writer].accesses_of(stored.tensor)
    ranks = dict(zip(written.ranks, range(len(written.ranks)), strict=True))
    for name, spans in visits.tile(stored.tensor, depth):
        if name not in ranks:
            continue
        produced = visits.regions(writer, written, ranks[name], depth)
        # The first tile keeps nothing: what it has before its first value is padding.
        if all(low >= first for (low, _), (first, _) in zip(spans[1:], produced[1:], strict=True)):
            continue
        dim = cascade.einsums[writer].space(written.dataspace).ranks[ranks[name]][0].dim
        dims = [loop.dim(cascade.einsums[writer].name) for loop in visits.mapping.paths[writer].loops[:depth]]
        if any(other != dim for other in dims[dims.index(dim) :]):
            text = f"`{stored.tensor}` keeps what overlaps along {name}, but a loop inside that over {name}"
            raise FusedMappingError(f"{text} moves its tile: store it above that loop", stored)


def _check_einsum(visits: Visits, place: int) -> None:
    einsum, path = visits.cascade.einsums[place], visits.mapping.paths[place]
    for access in einsum.accesses:
        space = einsum.space(access.dataspace)
        joint = multi_term_dims(einsum, access.dataspace) if space.read_write else frozenset[str]()
        if joint.intersection(path_dims(path, len(path.loops))):
            raise FusedMappingError(f"a shared loop over a window of the output `{access.tensor}`", path.leaf)
    if einsum.is_copy:
        _check_copy(visits, place)
        return
    held = [tile.dataspace for tile in path.leaf.held]
    twice = next((tile for tile in path.leaf.held if held.count(tile.dataspace) > 1), None)
    if twice is not None:
        raise FusedMappingError(f"`{twice.dataspace}` is held twice", twice)
    for tile in path.leaf.held:
        _check_held(visits, place, tile)
    if not path.leaf.nests:
        raise FusedMappingError(f"`{einsum.name}` has no nest", path.leaf)
    for nest in path.leaf.nests:
        _check_nest(visits, place, nest)
    outputs = {access.dataspace for access in einsum.accesses if access.tensor in einsum.written}
    homes = {_homes(einsum, nest, outputs) for nest in path.leaf.nests}
    if len(homes) > 1:
        text = f"the nests of `{einsum.name}` keep its outputs in different memories"
        raise FusedMappingError(f"{text}, but the next one needs them", path.leaf)


def _check_copy(visits: Visits, place: int) -> None:
    einsum, leaf = visits.cascade.einsums[place], visits.mapping.paths[place].leaf
    if leaf.nests or leaf.held:
        raise FusedMappingError(f"`{einsum.name}` is a copy, which has no nest of its own", leaf)


def _homes(einsum: CascadeEinsum, nest: PrivateNest, names: set[str]) -> frozenset[tuple[str, str]]:
    """Return in which memories a nest keeps some dataspaces."""
    levels = nest.placed(einsum.mapspace.architecture).levels
    entries = (entry for entry in nest.mapping.nodes if isinstance(entry, StorageMapping))
    return frozenset(
        (level.component, name)
        for level, entry in zip(levels, entries, strict=True)
        for name in entry.keep & names
    )


def _check_held(visits: Visits, place: int, tile: Held) -> None:
    cascade, mapping = visits.cascade, visits.mapping
    einsum, path = cascade.einsums[place], mapping.paths[place]
    if tile.dataspace not in {access.dataspace for access in einsum.accesses}:
        raise FusedMappingError(f"`{tile.dataspace}` is not a dataspace of `{einsum.name}`", tile)
    tensor = einsum.access(tile.dataspace).tensor
    if tensor in mapping.stored_at:
        raise FusedMappingError(f"`{tensor}` is stored, and has no second tile above the nests", tile)
    if not 0 <= tile.depth <= len(path.loops):
        raise FusedMappingError(f"`{einsum.name}` has {len(path.loops)} shared loops, not {tile.depth}", tile)
    loop = path.loops[tile.depth - 1] if tile.depth else None
    space = einsum.space(tile.dataspace)
    if tile.keeps_overlap and (loop is None or not slides(space, loop.dim(einsum.name))):
        text = f"`{tile.dataspace}` of `{einsum.name}` keeps what overlaps"
        raise FusedMappingError(f"{text}, but the loop right above its tile does not slide it", tile)
    writer = cascade.writers.get(tensor)
    others = [] if writer is None else ([*cascade.readers(tensor)] if writer == place else [writer])
    least = max((path.shared(mapping.paths[other]) for other in others), default=0)
    if tile.fetch_depth < least:
        text = f"`{tensor}` goes through the outermost memory inside {least} shared loops"
        raise FusedMappingError(f"{text}, and is fetched above {least - tile.fetch_depth} of them", tile)


def _check_nest(visits: Visits, place: int, nest: PrivateNest) -> None:
    einsum, leaf = visits.cascade.einsums[place], visits.mapping.paths[place].leaf
    if nest.order is not None:
        _check_order(einsum, nest)
    architecture = nest.placed(einsum.mapspace.architecture)
    if len(architecture.nodes) != len(nest.mapping.nodes):
        raise FusedMappingError(f"a nest of `{einsum.name}` does not fit the architecture", nest)
    at_home = {a.dataspace: visits.mapping.stored_at.get(a.tensor) for a in einsum.accesses}
    stored = {name: home.memory for name, home in at_home.items() if home is not None}
    on_chip = einsum.mapspace.architecture.on_chip
    outermost = on_chip[0].name if on_chip else None
    homes = stored | {tile.dataspace: outermost for tile in leaf.held}
    for node, entry in zip(architecture.nodes, nest.mapping.nodes, strict=True):
        if isinstance(node, Fanout) or not isinstance(entry, StorageMapping):
            continue
        if node.tolls and entry != StorageMapping((), frozenset(dict(node.tolls))):
            paying = listing(sorted(dict(node.tolls)))
            raise FusedMappingError(f"the toll `{node.name}` has no loops, and {paying} passes it", nest)
        second = sorted(name for name in entry.keep if homes.get(name) == node.component)
        if second:
            raise FusedMappingError(
                f"{listing(second)} has a tile above the nest at `{node.component}`", nest
            )
    first = nest.mapping.nodes[0]
    outside = {access.dataspace for access in einsum.accesses} - stored.keys()
    if not isinstance(first, StorageMapping) or first.keep != outside:
        text = f"`{architecture.levels[0].name}` keeps all that `{einsum.name}` does not store on chip"
        raise FusedMappingError(f"{text}: {listing(sorted(outside))}", nest)
    for name, memory in stored.items():
        _check_below_stored(architecture, nest, einsum, name, memory)


def _check_order(einsum: CascadeEinsum, nest: PrivateNest) -> None:
    """Check that a nest in an order of its own names memories, and has each tensor's in their order."""
    levels = einsum.mapspace.architecture.levels
    names, order = [level.name for level in levels], nest.order or ()
    if any(level.tolls for level in levels) or not set(order) <= set(names[1:]):
        text = f"the nest of `{einsum.name}` has an order of other nodes than memories on chip"
        raise FusedMappingError(text, nest)
    placed = nest.placed(einsum.mapspace.architecture).nodes
    pairs = [*zip(placed, nest.mapping.nodes, strict=False)]
    for access in einsum.accesses:
        kept = [
            names.index(node.component)
            for node, entry in pairs
            if isinstance(entry, StorageMapping) and isinstance(node, StorageLevel)
            if access.dataspace in entry.keep
        ]
        if kept != sorted(kept):
            text = f"the nest of `{einsum.name}` has a tile of `{access.dataspace}` below one in a memory"
            raise FusedMappingError(f"{text} inside of its own", nest)


def _check_below_stored(
    architecture: Architecture, nest: PrivateNest, einsum: CascadeEinsum, name: str, memory: str
) -> None:
    """Check that nothing is kept, and no loop moves the tile, outside of where a dataspace is stored."""
    dims, outermost = einsum.space(name).dims, einsum.mapspace.architecture.on_chip[0].name
    nodes = list(zip(architecture.nodes, nest.mapping.nodes, strict=True))
    memories = [level.name for level in einsum.mapspace.architecture.levels]
    outer = memories[: memories.index(memory)]
    last = max(n for n, (node, _) in enumerate(nodes) if getattr(node, "component", "") in outer)
    for node, entry in nodes[: last + 1]:
        if isinstance(entry, FanoutMapping) or isinstance(node, Fanout) or node.tolls:
            continue
        if name in entry.keep:
            raise FusedMappingError(f"`{name}` is stored in `{memory}`, inside `{node.name}`", nest)
        moving = [loop.dim for loop in entry.temporal if loop.bound > 1 and loop.dim in dims]
        if moving and memory != outermost:
            text = f"a loop over {moving[0]} at `{node.component}` moves `{name}`"
            raise FusedMappingError(f"{text}, which is stored inside it in `{memory}`", nest)


def _spatial_shares(
    architecture: Architecture, nest: PrivateNest, memory: str
) -> Iterator[tuple[str, str, int, str]]:
    """Yield fanout, dimension, children and axis of the spatial loops outside a memory, outermost first."""
    entries = (entry for entry in nest.mapping.nodes if isinstance(entry, FanoutMapping))
    for fanout, entry in zip(_fanouts_outside(architecture, memory), entries, strict=False):
        loops = reversed(entry.spatial)
        yield from ((fanout.name, loop.dim, loop.bound, loop.axis) for loop in loops if loop.bound > 1)


def _fanouts_outside(architecture: Architecture, memory: str) -> Sequence[Fanout]:
    """Return the fanouts that a memory lies under."""
    inside = next(position for position, node in enumerate(architecture.nodes) if node.name == memory)
    return architecture.fanouts[: architecture.fanouts_above(inside)]


class SpreadLoop(NamedTuple):
    """A spatial loop that spreads a stored tensor over instances; it divides the `extent` in a visit."""

    fanout: str
    rank: str
    children: int
    axis: str
    extent: int


SpreadDim = tuple[str, int, str]
"""A spatial loop: its dimension, children and axis."""


def check_spreads(visits: Visits) -> dict[str, tuple[SpreadLoop, ...]]:
    """Check that producer and consumers spread stored tensors over the instances of their memories alike.

    Returns
    -------
    dict of str to tuple of SpreadLoop
        How each stored tensor is spread, outermost loop first.

    Raises
    ------
    FusedMappingError
        If they do not.
    """
    spreads = {own.tensor: _spread_of(visits, own) for own in visits.mapping.stored}
    for place, einsum in enumerate(visits.cascade.einsums):
        if einsum.is_copy:
            copied_loops(visits, place, spreads)
    return spreads


def _spread_of(visits: Visits, stored: Stored) -> tuple[SpreadLoop, ...]:
    cascade = visits.cascade
    spreads = {
        tuple(_spatial_parts(cascade.einsums[place], access, nest, stored))
        for place in cascade.users[stored.tensor]
        for access in cascade.einsums[place].accesses_of(stored.tensor)
        for nest in visits.mapping.paths[place].leaf.nests
    }
    if len(spreads) > 1:
        text = f"`{stored.tensor}` is spread differently over the instances of `{stored.memory}`"
        raise FusedMappingError(f"{text} by the Einsums that access it", stored)
    outside = _fanouts_outside(cascade.einsums[0].mapspace.architecture, stored.memory)
    if not spreads and any(fanout.size > 1 for fanout in outside):
        text = f"only copies access `{stored.tensor}`, and `{stored.memory}` exists several times"
        raise FusedMappingError(f"{text}, which is not modelled", stored)
    return next(iter(spreads), ())


def copied_loops(
    visits: Visits, place: int, spreads: Mapping[str, Sequence[SpreadLoop]]
) -> dict[str, tuple[SpreadDim, ...]]:
    """Return by fanout the loops that spread what a copy reads and writes.

    Raises
    ------
    FusedMappingError
        If its tensors are not spread alike, or along no dimensions of its own.
    """
    einsum, found = visits.cascade.einsums[place], dict[str, tuple[SpreadDim, ...]]()
    accesses = (own for own in einsum.accesses if own.tensor in visits.mapping.stored_at)
    spread = (_copied_along(visits, place, access, spreads[access.tensor]) for access in accesses)
    for stored, fanout, loops in chain.from_iterable(spread):
        if found.setdefault(fanout, loops) != loops:
            text = f"the copy `{einsum.name}` reads and writes tensors that `{fanout}` spreads differently"
            raise FusedMappingError(text, stored)
    return found


def _copied_along(
    visits: Visits, place: int, access: Access, spread: Sequence[SpreadLoop]
) -> Iterator[tuple[Stored, str, tuple[SpreadDim, ...]]]:
    """Yield the fanouts outside of what a copy reads or writes, with the loops in its own dimensions."""
    einsum, path = visits.cascade.einsums[place], visits.mapping.paths[place]
    stored, dims = visits.mapping.stored_at[access.tensor], lone_dims(einsum, access)
    for loop in spread:
        parts = visits.extents(place, dims[loop.rank], len(path.loops)) if loop.rank in dims else ()
        if [*parts] != [loop.extent]:
            text = f"the copy `{einsum.name}` does not divide {loop.rank} of `{access.tensor}`"
            raise FusedMappingError(f"{text} as it is spread over instances of `{stored.memory}`", stored)
    for fanout in _fanouts_outside(einsum.mapspace.architecture, stored.memory):
        own = (loop for loop in spread if loop.fanout == fanout.name)
        yield stored, fanout.name, tuple((dims[loop.rank], loop.children, loop.axis) for loop in own)


def check_held_spread(cascade: Cascade, mapping: FusedMapping) -> None:
    """Check that all nests of an Einsum part what it holds among the instances of the memory alike.

    Raises
    ------
    FusedMappingError
        If they do not: what one visit leaves, the next one has to find.
    """
    for place, path in enumerate(mapping.paths):
        einsum = cascade.einsums[place]
        home = einsum.mapspace.architecture.on_chip[:1]
        nests = path.leaf.nests if path.leaf.held and home else ()
        shares = {tuple(_spatial_shares(einsum.mapspace.architecture, nest, home[0].name)) for nest in nests}
        if len(shares) > 1:
            text = f"the nests of `{einsum.name}` have different spatial loops outside `{home[0].name}`"
            raise FusedMappingError(f"{text}, where it holds a tile", path.leaf.held[0])


def _spatial_parts(
    einsum: CascadeEinsum, access: Access, nest: PrivateNest, stored: Stored
) -> Iterator[SpreadLoop]:
    """Yield the spatial loops of a nest outside of what it stores."""
    entries = nest.mapping.nodes
    loops = [x for e in entries for x in (e.spatial if isinstance(e, FanoutMapping) else e.temporal)]
    alone = {dim: rank for rank, dim in lone_dims(einsum, access).items()}
    for fanout, dim, bound, axis in _spatial_shares(einsum.mapspace.architecture, nest, stored.memory):
        if dim not in alone:
            text = f"a spatial loop over {dim} of `{einsum.name}` spreads copies or windows of"
            raise FusedMappingError(f"{text} `{stored.tensor}` over instances of `{stored.memory}`", nest)
        extent = math.prod(x.bound for x in loops if x.dim == dim)
        yield SpreadLoop(fanout, alone[dim], bound, axis, extent)
