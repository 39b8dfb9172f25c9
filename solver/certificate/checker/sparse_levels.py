"""The checker's reading of one level with sparse data: metadata, accesses of each kind, room, energy."""

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, NamedTuple

from solver.certificate.checker.claims import Json
from solver.certificate.checker.remainders import Access
from solver.certificate.checker.zeros import Chances, Tile

FULL_BLOCKS = {  # by words of a block, and by tenths of the density: so many blocks, or more, count as full
    2: (251, 125, 84, 63, 51, 42, 36, 32, 28, 1),
    4: (375, 188, 125, 94, 75, 63, 54, 47, 42, 1),
    8: (438, 219, 146, 110, 88, 73, 63, 55, 49, 1),
    16: (469, 235, 157, 118, 94, 79, 67, 59, 52, 1),
    32: (485, 243, 162, 122, 97, 81, 70, 61, 52, 1),
}
ACCESSES = ("read", "fill", "update")

RankWords = tuple[tuple[Any, Any], ...]  # words of metadata and of payloads, by rank
LayoutKey = tuple[tuple[str, ...], bool]


class Flow(NamedTuple):
    """Words by access, and by access and rank those of metadata."""

    data: dict[str, int]
    metadata: Mapping[str, RankWords]


class Moved(NamedTuple):
    """What a level moves, and what units save."""

    made: Flow
    saved: Flow | None
    skips: bool


def layout_key(layout: Json) -> LayoutKey:
    """A layout in a form that keys of tables can have."""
    return tuple(rank["kind"] for rank in layout["fibers"]), layout["inner_to_outer"]


@lru_cache(1 << 12)
def expected_metadata(layout: LayoutKey, tree: Any, tile: Tile, tensor: Any, chances: Chances) -> RankWords:
    """Words of metadata and payload per rank, on average over the numbers of nonzeros."""
    totals = [[0.0, 0.0] for _ in tree.fibers]
    for k, chance in chances:
        for total, (metadata, payload) in zip(
            totals, metadata_of(layout, tree, tile, k, tensor), strict=True
        ):
            total[0] += metadata * chance
            total[1] += payload * chance
    return tuple((metadata, payload) for metadata, payload in totals)


def idle(layout: LayoutKey, tree: Any, r: int) -> bool:
    """Whether rank `r` needs nothing: its fibers have one coordinate, and it is not the first one."""
    return tree.fibers[r][0] == 1 and r != (0 if layout[1] else len(tree.fibers) - 1)


def metadata_of(
    layout: LayoutKey, tree: Any, tile: Tile, nonzeros: int, tensor: Any
) -> list[tuple[float, float]]:
    """Words of metadata and payload per rank of a tile with so many nonzeros."""
    kinds, count, found, own = layout[0], 1, [(0.0, 0.0)] * len(tree.fibers), tile
    for r in reversed(range(len(kinds))):
        coordinates, inside = tree.fibers[r][0], tree.fibers[r - 1][1] if r else tree.lowest
        if not idle(layout, tree, r):
            found[r] = rank_words(kinds[r], count, coordinates, (own, inside), (tile, nonzeros), tensor)
        count, own = count * coordinates, inside
    last = next((r for r, words in enumerate(found) if words != (0.0, 0.0)), None)
    return [(words[0], 0.0) if r == last else words for r, words in enumerate(found)]


def rank_words(
    kind: str, count: int, coordinates: int, tiles: tuple[Tile, Tile], known: tuple[Tile, int], tensor: Any
) -> tuple[float, float]:
    """Words of metadata and payload of a rank with `count` fibers, empty ones included."""
    if kind == "UB":
        return float(count * coordinates), float(count * coordinates)
    fibers = count * (1 - tensor.empty(tiles[0], *known))
    if kind == "UOP":
        return 0.0, fibers * (coordinates + 1)
    filled = coordinates * (1 - tensor.empty(tiles[1], *known))
    if kind == "B":
        return fibers * coordinates, fibers * math.ceil(filled)
    words = fibers * (math.ceil(filled) if kind == "CP" else filled)
    return words, words


def cut(ranks: RankWords, share: float, count: int) -> RankWords:
    """The share, rounded down, of the words of the lowest ranks."""
    return tuple(
        (math.floor(m * share), math.floor(f * share)) if r < count else (0, 0)
        for r, (m, f) in enumerate(ranks)
    )


def less(ranks: RankWords, others: RankWords) -> RankWords:
    """Words per rank without some of them."""
    return tuple((m - a, f - b) for (m, f), (a, b) in zip(ranks, others, strict=True))


def without(flow: Flow, share: float) -> Flow:
    """What is left of a flow without a share, which nobody asks for."""
    data = {access: n - math.floor(n * share) for access, n in flow.data.items()}
    return Flow(data, {access: less(own, cut(own, share, len(own))) for access, own in flow.metadata.items()})


def saved(flow: Flow, share: float, ranks: int, rw: bool, skips: bool) -> Moved:
    """A flow with a share of reads and updates saved, and of the metadata that goes inwards."""
    data = {
        "read": math.ceil(flow.data["read"] * share) if rw else math.floor(flow.data["read"] * share),
        "fill": 0,
        "update": math.floor(flow.data["update"] * share),
    }
    metadata = {access: cut(flow.metadata[access], share, ranks) for access in ("read", "update")}
    metadata["fill"] = cut(flow.metadata["fill"], 0.0, 0)
    made = {access: n - data[access] for access, n in flow.data.items()}
    left = {access: less(own, metadata[access]) for access, own in flow.metadata.items()}
    return Moved(Flow(made, left), Flow(data, metadata), skips)


class Level:
    """A storage level with what it holds and moves."""

    def __init__(
        self,
        priced: Any,
        p: int,
        held: Sequence[Mapping[int, Any]],
        moved: Sequence[Mapping[int, Moved]],
        spans: Sequence[Mapping[int, Any]],
    ) -> None:
        self.priced, self.space, self.p = priced, priced.space, p
        self.has, self.node = self.space.has[p], self.space.nodes[p]
        self.kept = [v for v in priced.every if p in priced.mask[v]]
        self.held = {v: held[v][p] for v in self.kept}
        self.moved = {v: moved[v][p] for v in self.kept}
        self.flows = moved
        self.span = {v: spans[v][p] for v in self.kept}
        self.dense = priced.instances(p)
        self.limited = self.has["limited"]
        self.sizes = {v: self.size(v) for v in self.kept}
        self.spreads = {v: self.spread(v) for v in self.kept}

    def bits(self, v: int, ranks: RankWords) -> float:
        """Bits of words of metadata and payload per rank."""
        held, total = self.held[v], 0.0
        for r, (metadata, payload) in enumerate(ranks):
            rank = held.layout["fibers"][r]
            if idle(layout_key(held.layout), held.tree, r):
                total += metadata * 0 + payload * 0
            else:
                total += metadata * rank["metadata_bits"] + payload * rank["payload_bits"]
        return total

    def size(self, v: int) -> tuple[int, int, float]:
        """Values, bits of metadata, and the share of cases in which they suffice."""
        if self.held[v].layout is None:
            return self.held[v].words, 0, 1.0
        confidence = 1.0
        if self.has["allow_overbooking"] and self.limited and self.priced.packs(v, self.p):
            confidence = 1.0 - float(Fraction(*self.has["max_overbooked"]))
            confidence = self.raised(v, confidence) if confidence < 1 else confidence
        return (*self.size_at(v, confidence), confidence)

    def size_at(self, v: int, confidence: float) -> tuple[int, int]:
        """Values, and bits of metadata, that suffice in that share of the cases."""
        held, own = self.held[v], self.space.tensors[v]
        most = own.most(held.tile, confidence)
        bits = self.bits(v, tuple(metadata_of(layout_key(held.layout), held.tree, held.tile, most, own)))
        return most if self.priced.packs(v, self.p) else held.words, math.ceil(bits)

    def raised(self, v: int, least: float) -> float:
        """The greatest confidence, to a hundredth, with which a tile fits its share of the level."""
        share = [
            self.held[u].expected if self.priced.packs(u, self.p) else self.held[u].words for u in self.kept
        ]
        total, own = sum(share), share[self.kept.index(v)]
        part = own / total if total else 1.0
        room, bits = math.ceil(self.node["most_size"] * part), math.ceil(self.room_bits() * part)
        values, needed = self.size_at(v, least)
        if values >= room or needed >= bits:
            return least
        low, high = least, 1.0
        while high - low > 0.01:
            middle = 0.5 * (low + high)
            values, needed = self.size_at(v, middle)
            low, high = (middle, high) if values <= room and needed <= bits else (low, middle)
        return low

    def room_bits(self) -> int:
        """Bits of metadata that a tile may have."""
        bits: int = self.has["metadata_size_bits"]
        return math.floor(bits / Fraction(*self.has["buffering"]))

    def fits(self) -> bool:
        """Whether tiles and their metadata fit, and fill the level enough."""
        if not self.limited:
            return True
        size = sum(self.sizes[v][0] * self.space.at[self.p][v]["size"] for v in self.kept)
        bits = sum(self.sizes[v][1] for v in self.kept)
        roomy = self.has["allow_overbooking"] or bits <= self.room_bits()
        return roomy and self.node["least_size"] <= size <= self.node["most_size"]

    def in_use(self, v: int) -> float:
        """Instances that are in use, on average."""
        return float(self.dense * self.span[v][2])

    def demand(self) -> dict[Access, int]:
        """Words that an instance reads and writes on average."""
        ways = (("read",), ("fill", "update"))
        pairs = [(v, own) for v in self.kept for own in ways]
        return {Access(v, self.p, self.p, own[0], False): self.carried(v, own) for v, own in pairs}

    def carried(self, v: int, accesses: Sequence[str]) -> int:
        """Words of these accesses, metadata included; those that are skipped take no time."""
        moved = self.moved[v]
        flows = [moved.made] + ([moved.saved] if moved.saved and not moved.skips else [])
        words: int = sum(flow.data[access] for flow in flows for access in accesses)
        bits = sum(int(self.bits(v, flow.metadata[access])) for flow in flows for access in accesses)
        x, y, _ = self.span[v]
        if not self.in_use(v) or not x * y:
            return 0
        word_bits: int = self.has["word_bits"]
        share = x * y / self.in_use(v)
        return math.ceil((words + bits // word_bits) / float(share))

    def spread(self, v: int) -> Fraction:
        """Blocks that are accessed for each one that would be full: more where nonzeros are thinly spread."""
        held, block = self.held[v], self.space.at[self.p][v]["block"]
        share = held.expected / held.words
        if not self.priced.packs(v, self.p) or block == 1 or not 0 < share < 1:
            return Fraction(1)
        tenth = max(0, math.floor(share / 0.1) - 1)
        if block in FULL_BLOCKS and FULL_BLOCKS[block][tenth] <= held.words // block:
            return Fraction(1)
        blocks = 0.0
        for k, chance in self.space.tensors[v].chances(held.tile):
            blocks += math.ceil(k / block) * chance
        return Fraction(blocks / (held.words * share / block))

    def blocks(self, v: int, words: int) -> Fraction:
        """Blocks of data that words take."""
        block: int = self.space.at[self.p][v]["block"]
        return -(-words // block) * self.spreads[v]

    def vectors(self, v: int, ranks: RankWords) -> int:
        """Accesses to metadata that words per rank take."""
        width = self.has["metadata_width_bits"]
        return math.ceil(int(self.bits(v, ranks)) / width) if width else 0

    def one(self, v: int) -> Fraction:
        """Energy of one instance's accesses of all kinds to a dataspace."""
        doc, prices, moved, total = self.space.at[self.p][v], self.has["energy"], self.moved[v], Fraction(0)
        kinds = [("", moved.made)] + (
            [("skipped_" if moved.skips else "gated_", moved.saved)] if moved.saved else []
        )
        for access, (kind, flow) in product(ACCESSES, kinds):
            each = prices.get(kind + access, 0) * self.has["rows"][v] if kind else doc[access]
            total += self.blocks(v, flow.data[access]) * each
            total += self.vectors(v, flow.metadata[access]) * prices.get(f"{kind}metadata_{access}", 0)
        outer = max((q for q in self.priced.mask[v] if q < self.p), default=None)
        if outer is not None and self.priced.packs(v, outer) and not self.priced.packs(v, self.p):
            total += moved.made.data["fill"] * prices.get("decompression", 0)
            sent = self.flows[v][outer].made.data["update"] if self.space.spaces[v].rw else 0
            total += sent * prices.get("compression", 0)
        return total * Fraction(self.sizes[v][2])

    def energy(self, levels: Iterable["Level"]) -> Fraction:
        """Energy of all instances, with that of reads for tiles of the next inner level that overflow."""
        total, places = Fraction(0), {level.p: level for level in levels}
        for v in self.kept:
            own, child = self.one(v), self.priced.child(v, self.p)
            if child is not None:
                inner = places[child]
                made = inner.moved[v].made
                data = inner.blocks(v, made.data["read"]) * self.has["read_energy"]
                metadata = inner.vectors(v, made.metadata["read"]) * self.has["energy"].get(
                    "metadata_read", 0
                )
                own += (1 - Fraction(inner.sizes[v][2])) * (data + metadata)
            x, y, _ = self.span[v]
            most = x * y
            paying = min(most, self.node["most_paying"])
            total += own * paying * Fraction(self.in_use(v)) / most if most else 0
        return total

    def leak(self) -> Any:
        """Leakage per cycle of the instances in use; where gates farther out switch, of all under those."""
        if self.has["leaks_in_use"] and self.kept:
            return self.node["leak"] * Fraction(max(1, *(self.in_use(v) for v in self.kept)))
        return self.node["leak"] * prod(self.priced.used[q] for q in self.node["leak_fanouts"])
