"""AccelForge's mapping trees as fused mappings, and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from model.architecture import Architecture
from model.formats.accelforge.mapping import NestPath, TileNode, mapping_text, read_paths
from model.formats.cascade.tree_nest import (
    NotWrittenError,
    PathReader,
    PathWriter,
    Placed,
    PlacedLoop,
    PlacedTile,
    check_overlaps,
    nest_of,
    ordered_dims,
    without_split_loops,
)
from model.fused.cascade import Access, Cascade, CascadeEinsum
from model.fused.mapping import (
    Body,
    FusedMapping,
    Held,
    Leaf,
    LeafPath,
    PrivateNest,
    SharedLoop,
    Stored,
    nest_in_order,
)
from model.mapping import FanoutMapping, Loop, SpatialLoop, StorageMapping
from model.mapping import Mapping as LoopNest
from model.mapspace import Mapspace
from model.text.source import Node, Span, SpecError
from model.wording import listing, suggestion


@dataclass
class _Joining:
    """Paths of all Einsums in order, and the shared loops that follow from what they store on chip.

    `free` says which have tiles of inner memories above others of memories outside.
    """

    cascade: Cascade
    paths: list[NestPath]
    placed: list[tuple[Placed, ...]]
    free: list[bool]
    places: dict[int, Span] = field(default_factory=dict)
    stored: dict[str, Stored] = field(default_factory=dict)

    def temporal(self, place: int) -> list[PlacedLoop]:
        """Return the temporal loops of an Einsum."""
        return [step for step in self.placed[place] if isinstance(step, PlacedLoop) and step.fanout is None]

    def tiles(self, place: int) -> Iterator[tuple[int, PlacedTile]]:
        """Yield the tiles of an Einsum, each with the number of temporal loops above it."""
        depth = 0
        for step in self.placed[place]:
            if isinstance(step, PlacedTile):
                yield depth, step
            elif step.fanout is None:
                depth += 1

    def mapping(self) -> FusedMapping:
        """Return the fused mapping."""
        self._store()
        children = tuple(self._children(range(len(self.paths)), 0))
        return FusedMapping(children, tuple(self.stored.values()))

    def _store(self) -> None:
        """Find what is stored on chip, which all Einsums that use it must agree on."""
        outermost = self.cascade.einsums[0].mapspace.architecture.levels[0].name
        firsts: dict[str, tuple[PlacedTile, int]] = {}
        tiles = chain.from_iterable(self.tiles(place) for place in range(len(self.paths)))
        for depth, tile in ((depth, tile) for depth, tile in tiles if tile.is_home):
            first, above = firsts.setdefault(tile.tensor, (tile, depth))
            if (first.memory, above) != (tile.memory, depth):
                message = (
                    f"`{tile.tensor}` stands in `{tile.memory}` below {depth} loops here, and elsewhere in "
                    f"`{first.memory}` below {above}"
                )
                related = () if first.span is None else ((first.span, "elsewhere"),)
                raise SpecError(message, tile.span, related)
            if tile.memory != outermost and tile.tensor not in self.stored:
                self.stored[tile.tensor] = Stored(tile.tensor, tile.memory, depth)
                self._at(self.stored[tile.tensor], tile.span)

    def _at(self, part: object, span: Span | None) -> None:
        if span is not None:
            self.places[id(part)] = span

    def _is_linked(self, cut: int, depth: int) -> bool:
        """Whether something stored below a loop at a depth is used on both sides of a cut.

        Below a loop that moves what an inner memory stores above it, as the tree has one for all that use it.
        """
        for tensor, stored in self.stored.items():
            users = self.cascade.users[tensor]
            if users[0] <= cut < users[-1] and (stored.depth > depth or self._moves(stored, depth)):
                return True
        return False

    def _moves(self, stored: Stored, depth: int) -> bool:
        """Whether one loop of the tree, at a depth, moves what an inner memory stores above it."""
        users = self.cascade.users[stored.tensor]
        places = range(users[0], users[-1] + 1)
        loops = [self.temporal(place)[depth : depth + 1] for place in places]
        if stored.memory == self.cascade.einsums[0].mapspace.architecture.on_chip[0].name or not all(loops):
            return False
        dims = {
            place: {
                d
                for a in self.cascade.einsums[place].accesses_of(stored.tensor)
                for d in self._dims(place, a)
            }
            for place in users
        }
        is_one = len({loop.span for (loop,) in loops}) == 1
        return is_one and any(loops[place - users[0]][0].dim in dims[place] for place in users)

    def _dims(self, place: int, access: Access) -> tuple[str, ...]:
        return tuple(self.cascade.einsums[place].space(access.dataspace).dims)

    def _groups(self, places: range, depth: int) -> Iterator[range]:
        first = places.start
        for cut in places:
            if cut + 1 == places.stop or not self._is_linked(cut, depth):
                yield range(first, cut + 1)
                first = cut + 1

    def _children(self, places: range, depth: int) -> Iterator[Body | Leaf]:
        for group in self._groups(places, depth):
            yield self._leaf(group.start, depth) if len(group) == 1 else self._body(group, depth)

    def _body(self, group: range, depth: int) -> Body:
        loops: list[SharedLoop] = []
        while len(list(self._groups(group, depth))) == 1:
            loops.append(self._shared_loop(group, depth))
            depth += 1
        body = Body(tuple(loops), tuple(self._children(group, depth)))
        self._at(body, self.paths[group.start].span)
        return body

    def _shared_loop(self, group: range, depth: int) -> SharedLoop:
        loops = [self._loop_at(place, depth) for place in group]
        for loop in loops[1:]:
            if loop.trips != loops[0].trips:
                message = (
                    f"Einsums that pass a tensor on chip share loops: this one has {loop.trips} iterations, "
                    f"and that of `{self.paths[group.start].einsum}` {loops[0].trips}"
                )
                related = () if loops[0].span is None else ((loops[0].span, "the other"),)
                raise SpecError(message, loop.span, related)
        names = [self.paths[place].einsum for place in group]
        pairs = zip(names, loops, strict=True)
        shared = SharedLoop(loops[0].trips, tuple((name, loop.dim) for name, loop in pairs))
        self._at(shared, loops[0].span)
        return shared

    def _loop_at(self, place: int, depth: int) -> PlacedLoop:
        loops = self.temporal(place)
        if depth < len(loops):
            return loops[depth]
        path = self.paths[place]
        message = f"Einsum `{path.einsum}` runs between Einsums that share loops, but not all of these loops"
        raise SpecError(message, path.span)

    def _leaf(self, place: int, shared: int) -> Leaf:
        einsum, path = self.cascade.einsums[place], self.paths[place]
        if einsum.is_copy:
            self._check_copy(einsum, place)
            return self._placed_leaf(Leaf(einsum.name, ()), path)
        check_overlaps(einsum.problem, self.placed[place], shared)
        levels = einsum.mapspace.architecture.levels
        held: list[Held] = []
        private: list[Placed] = []
        depth = 0
        for step in self.placed[place]:
            if isinstance(step, PlacedLoop):
                is_shared = step.fanout is None and depth < shared
                private += [] if is_shared else [step]
                depth += step.fanout is None
            elif step.is_home:
                private += [step] if step.memory != levels[0].name else []
            elif depth < shared + step.keeps_overlap:
                self._check_held(einsum, step)
                held.append(Held(step.dataspace, depth, step.keeps_overlap))
                self._at(held[-1], step.span)
            else:
                private.append(step)
        nest = self._nest(place, private)
        self._at(nest, path.span)
        return self._placed_leaf(Leaf(einsum.name, (nest,), tuple(held)), path)

    def _nest(self, place: int, private: list[Placed]) -> PrivateNest:
        """Return the nest of an Einsum below what it shares and holds."""
        mapspace = self.cascade.einsums[place].mapspace
        architecture, ordered = mapspace.architecture, ordered_dims(mapspace)
        outermost = architecture.levels[0].name
        outside = frozenset(tile.dataspace for _, tile in self.tiles(place) if tile.memory == outermost)
        if self.free[place]:
            return _in_any_order(architecture, private, outside, ordered)
        mapping, places = nest_of(architecture, private, outside, ordered)
        return PrivateNest(mapping, tuple(places.items()))

    def _placed_leaf(self, leaf: Leaf, path: NestPath) -> Leaf:
        self._at(leaf, path.span)
        return leaf

    def _check_held(self, einsum: CascadeEinsum, tile: PlacedTile) -> None:
        on_chip = einsum.mapspace.architecture.on_chip
        if tile.memory != on_chip[0].name:
            message = f"a tile of `{tile.memory}` above loops that Einsums share is not modelled"
            hint = f"only `{on_chip[0].name}` holds tiles there"
            raise SpecError(message, tile.span, hint=hint)

    def _check_copy(self, einsum: CascadeEinsum, place: int) -> None:
        for _, tile in self.tiles(place):
            if not tile.is_home:
                message = (
                    f"a copy has no tiles on the way: `{einsum.name}` moves each word of `{tile.tensor}` once"
                )
                raise SpecError(message, tile.span)


def _in_any_order(
    architecture: Architecture, placed: Sequence[Placed], outside: frozenset[str], ordered: frozenset[str]
) -> PrivateNest:
    """Return loops and tiles as a nest whose memories are in any order; parameters are those of `nest_of`.

    What an inner memory stores stands right below the last tile in a memory outside of it. So a further
    place of its memory follows, for the loops below that tile.
    """
    depth = {level.name: number for number, level in enumerate(architecture.levels)}
    joined = list(without_split_loops(placed, ordered))
    tiles = [step for step in joined if isinstance(step, PlacedTile)]
    inner = {tile.memory for tile in tiles if tile.is_home} - {architecture.on_chip[0].name}
    further: dict[PlacedTile | None, list[str]] = {}
    for memory in sorted(inner, key=depth.__getitem__):
        above = [own for own in tiles if not own.is_home and depth[own.memory] < depth[memory]]
        further.setdefault(above[-1] if above else None, []).append(memory)
    across: dict[str, FanoutMapping] = {}
    places = [(architecture.levels[0].name, StorageMapping((), outside))]
    places += [(memory, StorageMapping()) for memory in further.get(None, ())]
    for step in (own for own in joined if not (isinstance(own, PlacedTile) and own.is_home)):
        if isinstance(step, PlacedTile):
            places.append((step.memory, StorageMapping((), frozenset([step.dataspace]))))
            places += [(memory, StorageMapping()) for memory in further.get(step, ())]
        elif step.fanout is not None:
            others = across.get(step.fanout, FanoutMapping()).spatial
            across[step.fanout] = FanoutMapping((SpatialLoop(step.dim, step.trips, "x"), *others))
        else:
            memory, last = places.pop()
            places.append((memory, replace(last, temporal=(Loop(step.dim, step.trips), *last.temporal))))
    return nest_in_order(architecture, places, across)


def read_mapping_tree(section: Node, cascade: Cascade) -> tuple[FusedMapping, dict[int, Span]]:
    """Read the section ``mapping`` of AccelForge for all Einsums of a cascade.

    As in AccelForge, which loops are shared follows from what is stored on chip, and not from the tree:
    neighbours share the loops above a tensor that both sides use.

    Returns
    -------
    tuple
        The mapping, and where its parts are written, by their identities.

    Raises
    ------
    SpecError
        For every kind of bad input, and what fused mappings here cannot say.
    """
    paths = read_paths(section)
    names = [einsum.name for einsum in cascade.einsums]
    for name, path in paths.items():
        if name not in names:
            hint = suggestion(name, names, "the Einsums are")
            raise SpecError(f"there is no Einsum `{name}`", path.span, hint=hint)
    missing = [name for name in names if name not in paths]
    if missing:
        raise SpecError(f"the mapping has no `!Compute` of {listing(missing)}", section.span)
    ordered = [paths[name] for name in names]
    readers = [_reader(path, own, cascade) for path, own in zip(ordered, cascade.einsums, strict=True)]
    placed = [reader.placed() for reader in readers]
    pairs = zip(readers, placed, strict=True)
    free = [not reader.is_in_hardware_order(steps) for reader, steps in pairs]
    joining = _Joining(cascade, ordered, placed, free)
    mapping = joining.mapping()
    joining.places[id(mapping)] = section.span
    return mapping, joining.places


def _reader(path: NestPath, einsum: CascadeEinsum, cascade: Cascade) -> PathReader:
    for step in path.steps:
        if isinstance(step, TileNode) and step.persistent and step.tensor not in cascade.persistent:
            message = f"`{step.tensor}` is persistent here, but not in the workload"
            raise SpecError(message, step.span, hint="add it to `persistent_tensors`")
    tensors = {access.dataspace: access.tensor for access in einsum.accesses}
    return PathReader(path, einsum.problem, einsum.mapspace.architecture, tensors, cascade.users)


def accelforge_mapping(cascade: Cascade, mapping: FusedMapping) -> str:
    """Return a fused mapping in the form that AccelForge's `evaluate_mapping` reads.

    Raises
    ------
    NotWrittenError
        If that form cannot say it.
    """
    return mapping_text([_nest_path(cascade, mapping, place) for place in range(len(cascade.einsums))])


OUTSIDE_GROUPS = 0
"""Group of tiles that stand above the private nests; bodies have numbers from 1."""


def _nest_path(cascade: Cascade, mapping: FusedMapping, place: int) -> NestPath:
    einsum, path = cascade.einsums[place], mapping.paths[place]
    architecture, problem = einsum.mapspace.architecture, einsum.problem
    tensors = {access.dataspace: access.tensor for access in einsum.accesses}
    if len(set(tensors.values())) < len(tensors):
        raise NotWrittenError(f"Einsum `{einsum.name}` reads a tensor twice")
    if len(path.leaf.nests) > 1 or any(nest.bounds is not None for nest in path.leaf.nests):
        raise NotWrittenError(f"the visits of Einsum `{einsum.name}` differ")
    slid = [tile.depth for tile in path.leaf.held if tile.keeps_overlap]
    if len(set(slid)) < len(slid):
        raise NotWrittenError(f"one shared loop slides two tiles of Einsum `{einsum.name}` that stay in part")
    writer = PathWriter(problem, architecture, tensors, cascade.persistent)
    for dataspace, tensor in tensors.items():
        if tensor not in mapping.stored_at:
            writer.tile(dataspace, architecture.levels[0].name, OUTSIDE_GROUPS)
    left = dict(problem.bound)
    for depth, loop in enumerate((*path.loops, None)):
        for dataspace, memory, keeps_overlap in _tiles_above(einsum, mapping, path, depth):
            writer.tile(dataspace, memory, OUTSIDE_GROUPS, keeps_overlap)
        if loop is not None:
            left[loop.dim(einsum.name)] //= loop.trips
            writer.loop(loop.dim(einsum.name), loop.trips, group=path.bodies[depth] + 1)
    for nest in path.leaf.nests:
        if not nest.mapping.divides(left):
            raise NotWrittenError(f"loops of Einsum `{einsum.name}` have remainders")
        writer.nest(nest.placed(architecture), nest.mapping)
    for dim, extent in left.items() if einsum.is_copy else ():
        writer.loop(dim, extent)
    return writer.path(einsum.name)


def _tiles_above(
    einsum: CascadeEinsum, mapping: FusedMapping, path: LeafPath, depth: int
) -> Iterator[tuple[str, str, bool]]:
    """Yield what is stored and held below so many shared loops, its memory, and whether overlaps stay."""
    for access in einsum.accesses:
        stored = mapping.stored_at.get(access.tensor)
        if stored is not None and stored.depth == depth:
            yield access.dataspace, stored.memory, False
    outermost = einsum.mapspace.architecture.on_chip[:1]
    for held in (own for own in path.leaf.held if own.depth == depth):
        yield held.dataspace, outermost[0].name, held.keeps_overlap


def einsum_mapping(mapspace: Mapspace, einsum: str, mapping: LoopNest) -> str:
    """Return the mapping of one Einsum in the form that AccelForge's `evaluate_mapping` reads.

    Parameters
    ----------
    mapspace
        Whose memories may have several places; dataspaces have the names of their tensors.

    Raises
    ------
    NotWrittenError
        If that form cannot say it.
    """
    problem = mapspace.problem
    if not mapping.divides(problem.bound):
        raise NotWrittenError("loops have remainders")
    tensors = {space.name: space.name for space in problem.dataspaces}
    writer = PathWriter(problem, mapspace.architecture, tensors)
    outermost = mapping.nodes[0]
    assert isinstance(outermost, StorageMapping)
    for space in problem.dataspaces:
        if space.name in outermost.keep:
            writer.tile(space.name, mapspace.architecture.levels[0].component, OUTSIDE_GROUPS)
    writer.nest(mapspace.architecture, mapping)
    return mapping_text([writer.path(einsum)])
