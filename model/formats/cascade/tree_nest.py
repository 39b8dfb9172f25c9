"""A path of AccelForge's mapping tree as the loop nest of one Einsum on an architecture."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import product, takewhile

from model.architecture import Architecture, Fanout, StorageLevel, with_places
from model.cost.order import check_order
from model.formats.accelforge.mapping import NestPath, Step, TiledLoop, TileNode, read_paths
from model.fused.visits import slides
from model.mapping import FanoutMapping, Loop, NodeMapping, SpatialLoop, StorageMapping
from model.mapping import Mapping as LoopNest
from model.mapspace import KeepRules, Mapspace, SpatialRules, TemporalRules
from model.orders import Order, in_order
from model.problem import Dataspace, Problem
from model.text.source import MappingNode, Node, Span, SpecError
from model.wording import listing, suggestion


@dataclass(frozen=True, slots=True)
class PlacedLoop:
    """A loop by its iterations; spatial ones have a fanout."""

    dim: str
    trips: int
    fanout: str | None
    span: Span | None


@dataclass(frozen=True, slots=True)
class PlacedTile:
    """A dataspace in a memory, where its words are brought.

    Parameters
    ----------
    is_home
        No memory outside has it.
    keeps_overlap
        It stood above the loop right above, which slides it.
    """

    dataspace: str
    tensor: str
    memory: str
    is_home: bool
    span: Span | None
    keeps_overlap: bool = False


Placed = PlacedLoop | PlacedTile


class PathReader:
    """Places the loops and tiles of a path on an architecture.

    Parameters
    ----------
    problem, architecture
        The Einsum; every memory at one place.
    tensors
        The tensor of each dataspace.
    known
        All tensors of the workload: a tile above several Einsums may be of one that this one does not use.
    """

    def __init__(
        self,
        path: NestPath,
        problem: Problem,
        architecture: Architecture,
        tensors: Mapping[str, str],
        known: Collection[str],
    ) -> None:
        self.path, self.problem, self.architecture = path, problem, architecture
        self._any_order = not any(level.tolls for level in architecture.levels)
        self._dataspaces: dict[str, str] = {}
        for dataspace, tensor in tensors.items():
            if tensor in self._dataspaces:
                message = (
                    f"Einsum `{path.einsum}` reads `{tensor}` twice, which AccelForge's form cannot express"
                )
                raise SpecError(message, path.span)
            self._dataspaces[tensor] = dataspace
        self._known = known
        self._positions = {node.name: place for place, node in enumerate(architecture.nodes)}
        self._memories = [level.name for level in architecture.levels if not level.tolls]
        if path.compute != architecture.compute.name:
            message = f"Einsum `{path.einsum}` runs on `{architecture.compute.name}`, not on `{path.compute}`"
            raise SpecError(message, path.span)

    def placed(self) -> tuple[Placed, ...]:
        """Return loops with several trips and tiles, outermost first; tolls are checked and left out.

        AccelForge fetches a tile where it stands, and keeps of it no more than the loops below need: it
        stands below all loops right below that move it, and the first one that slides its window. Loops that
        move what an inner memory stores are not passed: it would be moved outside of its memory.
        """
        steps = list(self._own_steps())
        self._check_tolls(steps)
        loops = dict(self._loops(steps))
        lowered: dict[int, list[PlacedTile]] = {}
        seen: dict[tuple[str, str], Span | None] = {}
        for place, step in enumerate(steps):
            if not isinstance(step, TileNode) or step.is_toll:
                continue
            tile = self._tile(step, seen)
            space = self.problem.dataspace(tile.dataspace)
            below, is_slid = place, False
            if not tile.is_home:
                below, is_slid = _lowered(steps, place, space, self._moving(steps[:place]))
            is_slid = is_slid and loops[below].trips > 1
            lowered.setdefault(below, []).append(replace(tile, keeps_overlap=is_slid))
        placed = list[Placed]()
        for place in range(len(steps)):
            placed += [loops[place]] if place in loops and loops[place].trips > 1 else []
            placed += lowered.get(place, [])
        placed = list(self._in_order(placed))
        self._check_order(placed)
        return tuple(placed)

    def _moving(self, above: Sequence[Step]) -> frozenset[str]:
        """Return the dimensions of what memories inside the outermost one on chip store on their own."""
        outer = [level.name for level in (self.architecture.levels[0], *self.architecture.on_chip[:1])]
        homes: dict[str, str] = {}
        for step in above:
            if isinstance(step, TileNode) and not step.is_toll:
                homes.setdefault(step.tensor, step.component)
        inner = [self._dataspaces[tensor] for tensor, memory in homes.items() if memory not in outer]
        return frozenset(dim for name in inner for dim in self.problem.dataspace(name).dims)

    def _tile(self, step: TileNode, seen: dict[tuple[str, str], Span | None]) -> PlacedTile:
        """Return the tile of a step; a memory has one of each tensor."""
        if (step.tensor, step.component) in seen:
            other = seen[step.tensor, step.component]
            related = () if other is None else ((other, "the first"),)
            raise SpecError(f"`{step.tensor}` is kept twice in `{step.component}`", step.span, related)
        is_home = all(tensor != step.tensor for tensor, _ in seen)
        seen[step.tensor, step.component] = step.span
        dataspace = self._dataspaces[step.tensor]
        return PlacedTile(dataspace, step.tensor, step.component, is_home, step.span)

    def _own_steps(self) -> Iterator[Step]:
        """Yield the steps about this Einsum, all names checked."""
        for step in self.path.steps:
            if isinstance(step, TiledLoop):
                yield TiledLoop((self._dim(step),), step.tile, step.fanout, span=step.span)
                continue
            tolls = [level.name for level in self.architecture.levels if level.tolls]
            names = tolls if step.is_toll else self._memories
            if step.tensor not in self._known:
                hint = suggestion(step.tensor, self._known, "the tensors are")
                raise SpecError(f"there is no tensor `{step.tensor}`", step.span, hint=hint)
            if step.tensor not in self._dataspaces:
                continue
            if step.component not in names:
                what = "toll" if step.is_toll else "memory"
                message = f"no {what} `{step.component}` on the way to the compute of `{self.path.einsum}`"
                raise SpecError(message, step.span, hint=suggestion(step.component, names, "there are"))
            yield step

    def _dim(self, loop: TiledLoop) -> str:
        dims = [name for name in loop.variables if name in self.problem.dims]
        if len(dims) != 1:
            which = f"no rank variable {listing(loop.variables)}" if not dims else f"both {listing(dims)}"
            message = f"Einsum `{self.path.einsum}` has {which}, so that this loop runs over none or several"
            raise SpecError(message, loop.span, ((self.path.span, "the Einsum"),) if self.path.span else ())
        if loop.fanout is not None and loop.fanout not in [own.name for own in self.architecture.fanouts]:
            names = [own.name for own in self.architecture.fanouts]
            message = f"no fanout `{loop.fanout}` on the way to the compute of `{self.path.einsum}`"
            raise SpecError(message, loop.span, hint=suggestion(loop.fanout, names, "there are"))
        return dims[0]

    def _loops(self, steps: Sequence[Step]) -> Iterator[tuple[int, PlacedLoop]]:
        left = dict(self.problem.bound)
        for place, step in enumerate(steps):
            if not isinstance(step, TiledLoop):
                continue
            (dim,) = step.variables
            if left[dim] % step.tile:
                message = f"a tile of {step.tile} does not divide the extent of `{dim}` there, {left[dim]}"
                raise SpecError(f"{message}: remainders are not modelled on an `arch`", step.span)
            yield place, PlacedLoop(dim, left[dim] // step.tile, step.fanout, step.span)
            left[dim] = step.tile
        rest = [dim for dim, extent in left.items() if extent > 1]
        if rest:
            message = f"no loop over {listing(rest)} of Einsum `{self.path.einsum}` leaves a tile of 1"
            raise SpecError(message, self.path.span)

    def _check_tolls(self, steps: Sequence[Step]) -> None:
        """Check that each tensor passes the tolls inside its outermost memory, as the architecture says."""
        homes: dict[str, int] = {}
        passed: dict[tuple[str, str], TileNode] = {}
        for step in steps:
            if isinstance(step, TileNode) and step.is_toll:
                passed[step.component, step.tensor] = step
            elif isinstance(step, TileNode):
                homes.setdefault(step.tensor, self._positions[step.component])
        nowhere = [tensor for tensor in self._dataspaces if tensor not in homes]
        if nowhere:
            raise SpecError(f"no memory has {listing(nowhere)} for `{self.path.einsum}`", self.path.span)
        for level, (tensor, dataspace) in product(self.architecture.levels, self._dataspaces.items()):
            pays = dataspace in dict(level.tolls) and self._positions[level.name] > homes[tensor]
            written = passed.get((level.name, tensor))
            if pays and written is None:
                message = f"`{tensor}` passes the toll `{level.name}` on its way to `{self.path.einsum}`"
                raise SpecError(f"{message}, but the mapping has no `!Toll` for it", self.path.span)
            if written is not None and not pays:
                raise SpecError(f"`{tensor}` pays no toll at `{level.name}`", written.span)

    def _in_order(self, placed: Sequence[Placed]) -> Iterator[Placed]:
        """Yield tiles with no loop between them by their memories, outermost first."""
        run: list[PlacedTile] = []
        for step in placed:
            if isinstance(step, PlacedTile):
                run.append(step)
                continue
            yield from sorted(run, key=self._position)
            run = []
            yield step
        yield from sorted(run, key=self._position)

    def _position(self, tile: PlacedTile) -> int:
        return self._positions[tile.memory]

    def is_in_hardware_order(self, placed: Sequence[Placed]) -> bool:
        """Whether tiles and spatial loops stand as their nodes do."""
        try:
            self._check_nodes(placed)
        except SpecError:
            return False
        return True

    def _check_order(self, placed: Sequence[Placed]) -> None:
        """Check that tiles and spatial loops stand as their nodes do, or the tiles of each tensor."""
        if not self._any_order or self.is_in_hardware_order(placed):
            self._check_nodes(placed)
            return
        last: dict[str, PlacedTile] = {}
        for place, step in enumerate(placed):
            if isinstance(step, PlacedTile):
                self._check_inside(last.get(step.tensor), self._position(step), step.memory, step.span)
                self._check_parted(placed[:place], step, self.problem.dataspace(step.dataspace).dims)
                last[step.tensor] = step
        self._check_whole(placed)

    def _check_whole(self, placed: Sequence[Placed]) -> None:
        """Check that the outermost memory has whole tensors."""
        outermost = self.architecture.levels[0].name
        above = takewhile(lambda step: isinstance(step, PlacedTile), placed)
        whole = [step for step in above if isinstance(step, PlacedTile) and step.memory == outermost]
        for step in placed:
            if isinstance(step, PlacedTile) and step.memory == outermost and step not in whole:
                message = f"a loop above a tile of `{outermost}`, which has whole tensors"
                raise SpecError(message, step.span)

    def _check_nodes(self, placed: Sequence[Placed]) -> None:
        """Check that tiles and spatial loops stand as their nodes do; what is stored may stand above."""
        outermost = self.architecture.levels[0].name
        last: PlacedTile | None = None
        for place, step in enumerate(placed):
            if isinstance(step, PlacedLoop) and step.fanout is not None:
                self._check_inside(last, self._positions[step.fanout], step.fanout, step.span)
            if isinstance(step, PlacedLoop) or (step.is_home and step.memory != outermost):
                continue
            if step.memory == outermost and any(isinstance(above, PlacedLoop) for above in placed[:place]):
                message = f"a loop above a tile of `{outermost}`, which has whole tensors"
                raise SpecError(message, step.span)
            self._check_inside(last, self._position(step), step.memory, step.span)
            self._check_parted(placed[:place], step, self.problem.dims)
            last = step

    def _check_inside(self, last: PlacedTile | None, position: int, name: str, span: Span | None) -> None:
        """Check that a node is not outside of that of the last tile."""
        if last is not None and position < self._position(last):
            message = f"`{name}` below a tile of `{last.memory}`, which is inside of it: not modelled"
            raise SpecError(message, span)

    def _check_parted(self, above: Sequence[Placed], tile: PlacedTile, moving: Collection[str]) -> None:
        """Check that spatial loops over some dimensions above a tile outside of them could stand below it."""
        dims = set[str]()
        for step in reversed(above):
            if isinstance(step, PlacedTile):
                continue
            if step.fanout is None:
                dims.add(step.dim)
                continue
            is_inside = self._positions[step.fanout] > self._position(tile)
            if is_inside and step.dim in dims and step.dim in moving:
                message = (
                    f"a tile of `{tile.memory}` below a loop of `{step.fanout}`, which is inside of it, and "
                    f"another loop over `{step.dim}`: not modelled"
                )
                raise SpecError(message, tile.span)


def _lowered(steps: Sequence[Step], place: int, space: Dataspace, fixed: frozenset[str]) -> tuple[int, bool]:
    """Return below which step a tile comes to stand, and whether the last loop passed slides it."""
    below = place
    for position in range(place + 1, len(steps)):
        step = steps[position]
        if not isinstance(step, TiledLoop) or step.fanout is not None:
            break
        (dim,) = step.variables
        if dim not in space.dims or dim in fixed:
            break
        below = position
        if slides(space, dim):
            return below, True
    return below, False


def check_overlaps(problem: Problem, placed: Sequence[Placed], shared: int = 0) -> None:
    """Check that no loop but the first `shared` ones slides the tile right below it: all of it would go."""
    depth, loop = 0, ""
    for step in placed:
        if isinstance(step, PlacedLoop):
            depth, loop = (depth + 1, step.dim) if step.fanout is None else (depth, loop)
            continue
        is_new = depth > shared and not step.is_home and not step.keeps_overlap
        if is_new and slides(problem.dataspace(step.dataspace), loop):
            message = f"nothing of `{step.tensor}` stays while the loop above its tile slides it"
            hint = "put the tile above that loop"
            raise SpecError(f"{message}: not modelled", step.span, hint=hint)


def nest_of(
    architecture: Architecture,
    placed: Sequence[Placed],
    outside: frozenset[str],
    ordered: frozenset[str],
) -> tuple[LoopNest, dict[str, int]]:
    """Return loops and tiles as a nest, and the number of places of memories that have several.

    Parameters
    ----------
    architecture
        Every memory at one place.
    placed
        As `PathReader.placed` has them, without the outermost memory's tiles. What is stored on chip is not
        kept in the nest; loops below it stand inside of its memory.
    outside
        What the outermost memory keeps.
    ordered
        Dimensions over which two loops with no tile between them are no single loop.

    Raises
    ------
    SpecError
        For two such loops.
    """
    outermost = architecture.levels[0].name
    spatial: dict[str, list[SpatialLoop]] = {fanout.name: [] for fanout in architecture.fanouts}
    places: dict[str, list[StorageMapping]] = {outermost: [StorageMapping((), outside)]}
    memory = outermost
    joined = list(without_split_loops(placed, ordered))
    for place, step in enumerate(joined):
        if isinstance(step, PlacedTile) and step.is_home:
            continue
        if isinstance(step, PlacedTile):
            own = places.setdefault(step.memory, [])
            own += [StorageMapping()] if not own or own[-1].temporal else []
            own[-1] = StorageMapping((), own[-1].keep | {step.dataspace})
            memory = step.memory
        elif step.fanout is not None:
            spatial[step.fanout].insert(0, SpatialLoop(step.dim, step.trips, "x"))
        else:
            memory = _memory_of_loop(architecture, memory, joined, place)
            last = places.setdefault(memory, [StorageMapping()])[-1]
            places[memory][-1] = StorageMapping((Loop(step.dim, step.trips), *last.temporal), last.keep)
    nodes: list[NodeMapping] = []
    for node in architecture.nodes:
        if isinstance(node, Fanout):
            nodes.append(FanoutMapping(tuple(spatial[node.name])))
        elif node.tolls:
            nodes.append(StorageMapping((), frozenset(dict(node.tolls))))
        else:
            nodes += places.get(node.name, [StorageMapping()])
    return LoopNest(tuple(nodes)), {name: len(own) for name, own in places.items() if len(own) > 1}


def _memory_of_loop(architecture: Architecture, memory: str, steps: Sequence[Placed], place: int) -> str:
    """Return the memory that a loop belongs to: that of the tile before, or of what is stored further in.

    In the outermost memory on chip, a stored tile stands above the loops of the memory outside as well.
    """
    order = {node.name: position for position, node in enumerate(architecture.nodes)}
    inside = [s for s in steps[place:] if isinstance(s, PlacedTile) and not s.is_home]
    most = min((order[tile.memory] for tile in inside), default=len(order))
    stored = [s.memory for s in steps[:place] if isinstance(s, PlacedTile) and s.is_home]
    deeper = (name for name in stored if name != architecture.on_chip[0].name and order[name] <= most)
    return max((memory, *deeper), key=order.__getitem__)


def without_split_loops(placed: Sequence[Placed], ordered: frozenset[str]) -> Iterator[Placed]:
    """Yield loops over one dimension with no tile between them as one, unless their order matters."""
    known: dict[tuple[str, str | None], PlacedLoop] = {}
    for step in placed:
        if isinstance(step, PlacedTile):
            yield from known.values()
            yield step
            known = {}
            continue
        first = known.get((step.dim, step.fanout), replace(step, trips=1))
        if first.trips > 1 and step.dim in ordered:
            message = f"two loops over `{step.dim}` with no tile between them are not modelled"
            raise SpecError(message, step.span, () if first.span is None else ((first.span, "the first"),))
        known[step.dim, step.fanout] = replace(first, trips=first.trips * step.trips)
    yield from known.values()


TREE_NOTE = "the constraints of the architecture do not apply to a given mapping in AccelForge's form"


@dataclass(frozen=True)
class TreeNest:
    """The nest of one Einsum, the places of memories that have several, and what each memory keeps.

    Where tiles stand above others in memories outside, `order` has them all, and the nest is one of it.
    """

    mapping: LoopNest
    places: dict[str, int]
    kept: dict[str, frozenset[str]]
    order: Order = ()


def is_tree(section: Node) -> bool:
    """Whether a section ``mapping`` is in AccelForge's form."""
    return isinstance(section, MappingNode) and "nodes" in section


def read_tree_nest(section: Node, einsum: str, mapspace: Mapspace) -> TreeNest:
    """Read the nest of one Einsum in a mapping tree.

    Raises
    ------
    SpecError
        If it has none, or one that stores tensors on chip, or that a nest cannot say.
    """
    paths = read_paths(section)
    if einsum not in paths:
        raise SpecError(f"the mapping has no `!Compute` of `{einsum}`", section.span)
    problem, architecture = mapspace.problem, mapspace.architecture
    tensors = {space.name: space.name for space in problem.dataspaces}
    known = {step.tensor for path in paths.values() for step in path.steps if isinstance(step, TileNode)}
    reader = PathReader(paths[einsum], problem, architecture, tensors, known | set(tensors))
    placed = reader.placed()
    check_overlaps(problem, placed)
    outermost = architecture.levels[0].name
    tiles = [step for step in placed if isinstance(step, PlacedTile)]
    for tile in tiles:
        if tile.is_home and tile.memory != outermost:
            message = f"`{tile.tensor}` is stored on chip, which concerns other Einsums as well"
            raise SpecError(message, tile.span, hint="leave out --einsum")
    kept: dict[str, frozenset[str]] = {
        level.name: frozenset(dict(level.tolls)) for level in architecture.levels
    }
    for tile in tiles:
        kept[tile.memory] |= {tile.dataspace}
    inside = [step for step in placed if isinstance(step, PlacedLoop) or step.memory != outermost]
    if not reader.is_in_hardware_order(placed):
        order, mapping = _nest_in_order(mapspace, list(without_split_loops(inside, ordered_dims(mapspace))))
        try:
            check_order(problem, in_order(mapspace, order).architecture, mapping)
        except ValueError as error:
            raise SpecError(str(error), paths[einsum].span) from None
        return TreeNest(mapping, {}, kept, order)
    mapping, places = nest_of(architecture, inside, kept[outermost], ordered_dims(mapspace))
    return TreeNest(mapping, places, kept)


def _nest_in_order(mapspace: Mapspace, steps: Sequence[Placed]) -> tuple[Order, LoopNest]:
    """Return the order of tiles, and loops as a nest of it."""
    numbers = {level.name: number for number, level in enumerate(mapspace.architecture.levels)}
    order: list[tuple[int, str]] = []
    slots: list[tuple[Loop, ...]] = [()]
    spatial: dict[str, tuple[SpatialLoop, ...]] = {}
    for step in steps:
        if isinstance(step, PlacedTile):
            order.append((numbers[step.memory], step.dataspace))
            slots.append(())
        elif step.fanout is not None:
            spatial[step.fanout] = (SpatialLoop(step.dim, step.trips, "x"), *spatial.get(step.fanout, ()))
        else:
            slots[-1] = (Loop(step.dim, step.trips), *slots[-1])
    own = in_order(mapspace, tuple(order))
    loops, rules, nodes = iter(slots), iter(own.keep), list[NodeMapping]()
    for node in own.architecture.nodes:
        if isinstance(node, Fanout):
            nodes.append(FanoutMapping(spatial.get(node.name, ())))
            continue
        kept = next(rules).keep
        nodes.append(StorageMapping(next(loops) if kept else (), kept))
    return tuple(order), LoopNest(tuple(nodes))


def ordered_dims(mapspace: Mapspace) -> frozenset[str]:
    """Return the dimensions of which the order of loops between two tiles matters."""
    problem = mapspace.problem
    by_order = mapspace.counting_rule.by_order
    return frozenset(
        dim for dim in problem.dims if by_order or any(slides(space, dim) for space in problem.dataspaces)
    )


def on_given_places(mapspace: Mapspace, places: Mapping[str, int], order: Order = ()) -> Mapspace:
    """Return a mapspace with so many places of memories, or one order of tiles, and without constraints."""
    architecture = with_places(mapspace.architecture, places)
    if order:
        architecture = in_order(mapspace, order).architecture
    return replace(
        mapspace,
        architecture=architecture,
        temporal=tuple(TemporalRules() for _ in architecture.levels),
        spatial=tuple(SpatialRules() for _ in architecture.fanouts),
        keep=tuple(KeepRules() for _ in architecture.levels),
        parallel=(),
        rules=(),
        min_parallelism=Fraction(0),
        free_order=frozenset(),
    )


class NotWrittenError(ValueError):
    """A mapping that AccelForge's form cannot say."""


@dataclass
class PathWriter:
    """Writes loops and tiles of one Einsum, outermost first, as the steps of a path."""

    problem: Problem
    architecture: Architecture
    tensors: Mapping[str, str]
    persistent: Collection[str] = ()
    steps: list[tuple[Placed, int | None]] = field(default_factory=list)
    homes: dict[str, int] = field(default_factory=dict)

    @cached_property
    def _order(self) -> dict[str, int]:
        """Places of memories, tolls and fanouts, the outermost one of each."""
        order: dict[str, int] = {}
        for place, node in enumerate(self.architecture.nodes):
            order.setdefault(node.name if isinstance(node, Fanout) else node.component, place)
        return order

    def tile(
        self, dataspace: str, memory: str, group: int | None = None, keeps_overlap: bool = False
    ) -> None:
        """Add a tile: above the loop right above, if that slides it and what overlaps stays.

        That is always so in a private nest; below shared loops, where it `keeps_overlap`.
        """
        position = self._order[memory]
        is_home = self.homes.setdefault(dataspace, position) == position
        tile = PlacedTile(dataspace, self.tensors[dataspace], memory, is_home, None)
        temporal = [i for i, (step, _) in enumerate(self.steps) if _is_temporal(step)]
        loop = self.steps[temporal[-1]][0] if temporal else None
        is_slid = isinstance(loop, PlacedLoop) and slides(self.problem.dataspace(dataspace), loop.dim)
        is_whole = bool(temporal) and self.steps[temporal[-1]][1] is not None and not keeps_overlap
        if is_home or not is_slid or is_whole:
            self.steps.append((tile, group))
            return
        assert isinstance(loop, PlacedLoop)
        rest = self.steps[temporal[-1] + 1 :]
        spatial = [own for own in rest if isinstance(own[0], PlacedLoop)]
        tiles = [own for own in rest if isinstance(own[0], PlacedTile)]
        if tiles and any(own.dim == loop.dim for own, _ in spatial if isinstance(own, PlacedLoop)):
            message = f"a loop over `{loop.dim}` slides `{dataspace}` in `{memory}`"
            raise NotWrittenError(f"{message}, and spatial loops divide it as well")
        self.steps[temporal[-1] :] = [*spatial, (tile, group), (loop, self.steps[temporal[-1]][1]), *tiles]

    def loop(self, dim: str, trips: int, fanout: str | None = None, group: int | None = None) -> None:
        """Add a loop, unless it has one trip."""
        if trips > 1:
            self.steps.append((PlacedLoop(dim, trips, fanout, None), group))

    def nest(self, architecture: Architecture, mapping: LoopNest) -> None:
        """Add a nest but for the tiles of the outermost memory; `architecture` has its places."""
        if architecture.has_own_order:
            self._nest_in_order(architecture, mapping)
            return
        spaces = [space.name for space in self.problem.dataspaces]
        for position, (node, entry) in enumerate(zip(architecture.nodes, mapping.nodes, strict=True)):
            if isinstance(entry, FanoutMapping):
                self._loops(entry.spatial, node.name)
                continue
            assert isinstance(node, StorageLevel)
            kept = spaces if position and not node.tolls else []
            for name in (name for name in kept if name in entry.keep):
                self.tile(name, node.component)
            self._loops(entry.temporal)

    def _nest_in_order(self, architecture: Architecture, mapping: LoopNest) -> None:
        """Add a nest whose memories are in any order.

        Each spatial loop stands right above the first tile in a memory inside that its dimension indexes.
        Loops that do not move a tile come first below it: AccelForge lowers tiles past those that do.
        """
        left = [
            (number, loop, architecture.nodes[position].name)
            for number, position in enumerate(architecture.fanout_indices)
            for entry in (mapping.nodes[position],)
            if isinstance(entry, FanoutMapping)
            for loop in reversed(entry.spatial)
        ]
        stood: list[tuple[int, SpatialLoop, str]] = []
        for position, kept, temporal in _slots(architecture, mapping):
            above = architecture.fanouts_above(position)
            indexed = {dim for name in kept for dim in self.problem.dataspace(name).dims}
            for own in [own for own in left if own[0] < above and own[1].dim in indexed]:
                self.loop(own[1].dim, own[1].bound, own[2])
                left.remove(own)
                stood.append(own)
            memory = architecture.level_at(position).component
            for name in kept:
                self.tile(name, memory)
            loops = sorted(temporal, key=lambda loop: loop.dim not in indexed)
            parted = {loop.dim for number, loop, _ in stood if number >= above} & indexed
            passed = {loop.dim for loop in loops} if loops and loops[-1].dim in indexed else set()
            if passed & parted:
                message = f"AccelForge would lower the tile in `{memory}` past loops over"
                raise NotWrittenError(f"{message} {listing(sorted(passed & parted))}, which a fanout unrolls")
            self._loops(loops)
        for _, loop, fanout in left:
            self.loop(loop.dim, loop.bound, fanout)

    def _loops(self, loops: Sequence[Loop | SpatialLoop], fanout: str | None = None) -> None:
        for loop in reversed(loops):
            self.loop(loop.dim, loop.bound, fanout)

    def path(self, einsum: str) -> NestPath:
        """Return the path: loops with the extents that they leave, and the tolls behind the first tiles."""
        left = dict(self.problem.bound)
        steps: list[Step] = []
        for step, group in self.steps:
            if isinstance(step, PlacedTile):
                persistent = step.is_home and step.tensor in self.persistent
                steps.append(TileNode(step.tensor, step.memory, False, persistent, group))
                continue
            left[step.dim] //= step.trips
            steps.append(TiledLoop((step.dim,), left[step.dim], step.fanout, group))
        for toll in self._tolls():
            place = self._behind(steps, toll)
            steps.insert(place, toll)
        return NestPath(einsum, self.architecture.compute.name, tuple(steps))

    def _tolls(self) -> Iterator[TileNode]:
        for level, space in product(self.architecture.levels, self.problem.dataspaces):
            if space.name in dict(level.tolls) and self.homes[space.name] < self._order[level.component]:
                yield TileNode(self.tensors[space.name], level.name, is_toll=True)

    def _behind(self, steps: Sequence[Step], toll: TileNode) -> int:
        """Return where a toll stands: below all that its tensor passes before, above all that is inside."""
        order = self._order
        own = order[toll.component]
        outside = [
            place
            for place, step in enumerate(steps)
            if (isinstance(step, TiledLoop) and step.fanout is not None and order[step.fanout] < own)
            or (isinstance(step, TileNode) and order[step.component] < own)
        ]
        return outside[-1] + 1 if outside else 0


def _slots(
    architecture: Architecture, mapping: LoopNest
) -> Iterator[tuple[int, list[str], tuple[Loop, ...]]]:
    """Yield what each place keeps but for the outermost memory, and the loops down to the next tile."""
    own: tuple[int, list[str], tuple[Loop, ...]] | None = None
    for position in architecture.storage_indices:
        entry = mapping.nodes[position]
        assert isinstance(entry, StorageMapping)
        kept = sorted(entry.keep) if position else []
        if own is not None and not kept:
            own = (*own[:2], (*entry.temporal, *own[2]))
            continue
        if own is not None:
            yield own
        own = position, kept, entry.temporal
    if own is not None:
        yield own


def _is_temporal(step: Placed) -> bool:
    return isinstance(step, PlacedLoop) and step.fanout is None
