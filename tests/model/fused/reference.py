"""Reference cases as cascades and fused mappings: AccelForge's trees, and those of an enumeration."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from model.formats.fused import load_cascade
from model.formats.timeloop import LoadOptions
from model.fused.cascade import Cascade
from model.fused.mapping import Body, FusedMapping, Held, Leaf, PrivateNest, SharedLoop, Stored
from model.mapping import FanoutMapping, Loop, Mapping, NodeMapping, SpatialLoop, StorageMapping
from tests.conftest import SHARED

FUSED = SHARED / "reference" / "fused"


class NestBuilder:
    """The nest of one Einsum from loops and tiles, outermost first."""

    def __init__(self, cascade: Cascade, einsum: str, stored: Sequence[str]) -> None:
        self.einsum = cascade.einsums[cascade.place(einsum)]
        self.nodes = self.einsum.mapspace.architecture.nodes
        outside = frozenset(a.dataspace for a in self.einsum.accesses if a.tensor not in stored)
        self.entries: list[NodeMapping] = [StorageMapping((), outside)]
        self.at = 0
        self.places: dict[str, int] = {}

    def loop(self, dim: str, bound: int) -> None:
        last = self.entries[-1]
        if isinstance(last, FanoutMapping):
            self._to(self.at + 1)
            last = self.entries[-1]
        assert isinstance(last, StorageMapping)
        self.entries[-1] = StorageMapping((Loop(dim, bound), *last.temporal), last.keep)

    def tile(self, memory: str, dataspace: str) -> None:
        place = [node.name for node in self.nodes].index(memory)
        if place == self.at:
            last = self.entries[-1]
            assert isinstance(last, StorageMapping)
            if last.keep or last.temporal:
                self.places[memory] = self.places.get(memory, 1) + 1
                self.entries.append(StorageMapping())
        self._to(place)
        self.entries[-1] = StorageMapping((), self.entries[-1].keep | {dataspace})

    def spatial(self, dim: str, bound: int) -> None:
        place = next(i for i in range(self.at, len(self.nodes)) if hasattr(self.nodes[i], "mesh_x"))
        self._to(place)
        last = self.entries[-1]
        assert isinstance(last, FanoutMapping)
        self.entries[-1] = FanoutMapping((SpatialLoop(dim, bound, "x"), *last.spatial))

    def _to(self, place: int) -> None:
        while self.at < place:
            self.at += 1
            fanout = hasattr(self.nodes[self.at], "mesh_x")
            self.entries.append(FanoutMapping() if fanout else StorageMapping())

    def nest(self) -> PrivateNest:
        self._to(len(self.nodes) - 1)
        return PrivateNest(Mapping(tuple(self.entries)), tuple(self.places.items()))


def tilewright_tree(cascade: Cascade, tree: dict[str, Any]) -> FusedMapping:
    """A tree of reference/fused/tilewright."""
    stored: list[Stored] = []
    held: dict[str, list[Held]] = {}

    def walk(node: dict[str, Any], depth: int) -> list[Body | Leaf]:
        if "einsum" in node:
            return [leaf(node)]
        loops = []
        for kind, *rest in node["items"]:
            if kind == "loop":
                dims, trips = rest
                loops.append(SharedLoop(trips, tuple(dims.items())))
            elif kind == "store":
                stored.append(Stored(rest[1], rest[0], depth + len(loops)))
            else:
                assert kind == "tile"
                held.setdefault(rest[2], []).append(Held(rest[1], depth + len(loops)))
        children = [part for child in node["children"] for part in walk(child, depth + len(loops))]
        return [Body(tuple(loops), tuple(children))] if loops else children

    def leaf(node: dict[str, Any]) -> Leaf:
        name = node["einsum"]
        builder = NestBuilder(cascade, name, [s.tensor for s in stored])
        for kind, *rest in node["items"]:
            if kind == "tile":
                builder.tile(rest[0], rest[1])
            else:
                {"loop": builder.loop, "spatial": builder.spatial}[kind](*rest)
        return Leaf(name, (builder.nest(),), tuple(held.get(name, ())))

    children = tuple(walk(tree, 0))
    return FusedMapping(children, tuple(stored))


def accelforge_cascade(record: dict[str, Any], folder: Path) -> Cascade:
    """The workload and the architecture of a line of cases.jsonl, as they stand."""
    files = folder / "workload.yaml", folder / "arch.yaml"
    for path, key in zip(files, ("workload", "arch"), strict=True):
        path.write_text(record[key], encoding="utf-8")
    return load_cascade(files, {}, LoadOptions(refuse_unsearchable=False))[0]


def accelforge_tree(cascade: Cascade, nodes: list[dict[str, Any]]) -> FusedMapping:
    """AccelForge's tree of nodes, a split being a body where its loops are shared."""
    stored: list[Stored] = []
    outermost = cascade.einsums[0].mapspace.architecture.levels[0].name
    bounds = {e.name: dict(e.problem.bound) for e in cascade.einsums}

    def below(part: list[dict[str, Any]]) -> list[str]:
        names = []
        for node in part:
            for key in ("Sequential", "Nested"):
                names += below(node[key]) if key in node else []
            names += [node["compute"]] if "compute" in node else []
        return names

    def dims(
        node: dict[str, Any], part: list[dict[str, Any]], bound: dict[str, dict[str, int]]
    ) -> dict[str, str]:
        """The variable per Einsum: the one that stands at the same rank of a tensor as the others'."""
        names = re.findall(r"'(\w+)'", node["temporal"]) or [node["temporal"]]
        einsums = [cascade.einsums[cascade.place(name)] for name in below(part)]
        first = next(name for name in names if name in einsums[0].problem.dims)
        found = {einsums[0].name: first}
        for _ in einsums:
            for writer in einsums:
                for reader in einsums:
                    _match(cascade, writer, reader, found)
        return {
            e.name: found.get(e.name, next((n for n in names if n in e.problem.dims), first)) for e in einsums
        }

    def walk(part: list[dict[str, Any]], depth: int, held: list[tuple[str, int]]) -> list[Body | Leaf]:
        names = below(part)
        if len(names) == 1:
            return [leaf(part, names[0], depth, held)]
        loops: list[SharedLoop] = []
        for node in part:
            if "temporal" in node:
                over = dims(node, part, bounds)
                name = names[0]
                trips = int(bounds[name][over[name]] / node["tile_shape"])
                for einsum, dim in over.items():
                    bounds[einsum][dim] //= trips
                if trips > 1:
                    loops.append(SharedLoop(trips, tuple(over.items())))
            elif "storage" in node and node["storage"] != outermost:
                for tensor in node["tensors"]:
                    users = [cascade.einsums[u].name for u in cascade.users[tensor]]
                    if tensor in cascade.intermediates:
                        stored.append(Stored(tensor, node["storage"], depth + len(loops)))
                    else:
                        held += [(user, tensor, depth + len(loops)) for user in users if user in names]
            elif "Sequential" in node:
                children = [
                    c for child in node["Sequential"] for c in walk(child["Nested"], depth + len(loops), held)
                ]
                return [Body(tuple(loops), tuple(children))] if loops else children
        raise AssertionError(part)

    def leaf(part: list[dict[str, Any]], name: str, depth: int, held: list[Any]) -> Leaf:
        builder = NestBuilder(cascade, name, [s.tensor for s in stored])
        bound = bounds[name]
        for node in part:
            if "storage" in node and node["storage"] != outermost:
                for tensor in node["tensors"]:
                    builder.tile(node["storage"], tensor)
            variable = node.get("temporal") or node.get("spatial")
            if variable is None:
                continue
            trips = int(bound[variable] / node["tile_shape"])
            bound[variable] = int(node["tile_shape"])
            if trips > 1:
                (builder.loop if "temporal" in node else builder.spatial)(variable, trips)
        tiles = tuple(Held(tensor, at) for einsum, tensor, at in held if einsum == name)
        return Leaf(name, (builder.nest(),), tiles)

    return FusedMapping(tuple(walk(nodes, 0, [])), tuple(stored))


def _match(cascade: Cascade, one: Any, other: Any, found: dict[str, str]) -> None:
    if one.name not in found or other.name in found:
        return
    for tensor in (one.tensors & other.tensors).intersection(cascade.intermediates):
        (a, *_), (b, *_) = one.accesses_of(tensor), other.accesses_of(tensor)
        ranks = dict(zip(a.ranks, one.space(a.dataspace).ranks, strict=True))
        rank = next((r for r, terms in ranks.items() if found[one.name] in [t.dim for t in terms]), None)
        if rank in b.ranks:
            found[other.name] = other.space(b.dataspace).ranks[b.ranks.index(rank)][0].dim
            return
