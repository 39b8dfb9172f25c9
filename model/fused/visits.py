"""What the visits of an Einsum cover: the parts of its dimensions that shared loops select."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

from model.fused.cascade import Access, Cascade, CascadeEinsum
from model.fused.mapping import FusedMapping, LeafPath
from model.problem import Dataspace

Span = tuple[int, int]
"""First index, and the one after the last."""


@dataclass(frozen=True)
class Visits:
    """The parts of dimensions and tensors that the shared loops of a fused mapping select.

    A loop cuts a dimension into equal tiles, the last of which may be short. The producer of a tensor goes
    as far in each iteration as its consumers under the same loop need, and on from where it was: what a
    window needs again is kept, and not computed again.
    """

    cascade: Cascade
    mapping: FusedMapping

    @cached_property
    def _spans(self) -> dict[tuple[int, str, int], tuple[Span, ...]]:
        return {}

    def spans(self, place: int, dim: str, depth: int) -> tuple[Span, ...]:
        """Parts of a dimension in the iterations of those of the first `depth` loops that run over it.

        Parameters
        ----------
        place, dim
            The Einsum's place in the cascade, and the dimension.
        depth
            Number of shared loops, from the outermost.

        Returns
        -------
        tuple of pairs
            In the order of execution; empty spans where nothing is left to do.
        """
        key = place, dim, depth
        if key not in self._spans:
            self._spans[key] = tuple(self._cut(place, dim, depth))
        return self._spans[key]

    def _cut(self, place: int, dim: str, depth: int) -> Iterator[Span]:
        if depth == 0:
            yield 0, self.cascade.einsums[place].problem.bound[dim]
            return
        path, parents = self.mapping.paths[place], self.spans(place, dim, depth - 1)
        loop = path.loops[depth - 1]
        if loop.dim(path.leaf.einsum) != dim:
            yield from parents
            return
        needs = list(self.needs(place, dim, depth))
        tile = -(-max(high - low for low, high in parents) // loop.trips)
        reached = 0
        for step in range(len(parents) * loop.trips):
            low, high = parents[step // loop.trips]
            start = low if step % loop.trips == 0 else reached
            last = bool(needs) and (step + 1) % loop.trips == 0
            wanted = max(need[step] for need in needs) if needs else start + tile
            reached = high if last else max(start, min(high, wanted))
            yield start, reached

    def needs(self, place: int, dim: str, depth: int) -> Iterator[list[int]]:
        """Yield how far along `dim` each consumer under the first `depth` loops reads in each iteration.

        Without one, a loop cuts the dimension by itself.
        """
        einsum = self.cascade.einsums[place]
        indexed = [
            (written, rank)
            for written in einsum.accesses
            if written.tensor in einsum.written
            for rank, terms in enumerate(einsum.space(written.dataspace).ranks)
            if [term.dim for term in terms] == [dim]
        ]
        for written, rank in indexed:
            for reader, access in self.consumers(place, written.tensor, depth):
                regions = self.regions(reader, access, access.ranks.index(written.ranks[rank]), depth)
                yield [high - written.offsets[rank] for _, high in regions]

    def consumers(self, place: int, tensor: str, depth: int) -> Iterator[tuple[int, Access]]:
        """Yield the accesses of the readers of a tensor that share the first `depth` loops with an Einsum."""
        paths = self.mapping.paths
        readers = self.cascade.readers(tensor)
        for reader in (reader for reader in readers if paths[reader].shared(paths[place]) >= depth):
            yield from ((reader, access) for access in self.cascade.einsums[reader].accesses_of(tensor))

    def regions(self, place: int, access: Access, rank: int, depth: int) -> tuple[Span, ...]:
        """Indices into a rank of a tensor that an access takes, for each of `spans`; empty ones as they are.

        All but one of the dimensions that index the rank are whole; `spans` are those of this one.
        """
        einsum = self.cascade.einsums[place]
        terms = einsum.space(access.dataspace).ranks[rank]
        path = self.mapping.paths[place]
        looped = {loop.dim(path.leaf.einsum) for loop in path.loops[:depth]}
        moving = next((term for term in terms if term.dim in looped), terms[0])
        low = high = access.offsets[rank]
        for term in terms:
            reach = term.coefficient * (einsum.problem.bound[term.dim] - 1) if term is not moving else 0
            low, high = low + min(0, reach), high + max(0, reach)
        return tuple(
            _region(moving.coefficient, span, low, high) for span in self.spans(place, moving.dim, depth)
        )

    def tile(self, tensor: str, depth: int) -> tuple[tuple[str, tuple[Span, ...]], ...]:
        """Per rank of a tensor, the parts that wait between its producer and its consumers.

        Parameters
        ----------
        tensor
            All that access it share the first `depth` loops.
        depth
            Number of shared loops that select a part.

        Returns
        -------
        tuple of pairs
            Name of a rank, and the indices in each iteration of the loops over it: from the first that a
            consumer still reads to the last that is produced.
        """
        users = [
            (place, access)
            for place in self.cascade.users[tensor]
            for access in self.cascade.einsums[place].accesses_of(tensor)
        ]
        names = dict.fromkeys(rank for _, access in users for rank in access.ranks)
        return tuple((name, self._joined(users, name, depth)) for name in names)

    def _joined(self, users: list[tuple[int, Access]], name: str, depth: int) -> tuple[Span, ...]:
        regions = [
            self.regions(place, access, access.ranks.index(name), depth)
            for place, access in users
            if name in access.ranks
        ]
        most = max(map(len, regions))
        return tuple(
            (min(low for low, _ in column), max(high for _, high in column))
            for column in zip(*(region for region in regions if len(region) == most), strict=True)
        )

    def extents(self, place: int, dim: str, depth: int) -> Counter[int]:
        """How many of `spans` have each extent; empty ones are left out."""
        sizes = (high - low for low, high in self.spans(place, dim, depth))
        return Counter(size for size in sizes if size)


def _region(coefficient: int, span: Span, low: int, high: int) -> Span:
    first, end = span
    if first == end:
        return low + coefficient * first, low + coefficient * first
    return low + coefficient * first, high + coefficient * (end - 1) + 1


def multi_term_dims(einsum: CascadeEinsum, dataspace: str) -> frozenset[str]:
    """Return the dimensions of a dataspace that share a rank with others, or index several ranks."""
    ranks = einsum.space(dataspace).ranks
    every = [term.dim for terms in ranks for term in terms]
    joint = {term.dim for terms in ranks if len(terms) > 1 for term in terms}
    return frozenset(joint | {dim for dim in every if every.count(dim) > 1})


def slides(space: Dataspace, dim: str) -> bool:
    """Whether a dimension indexes a dataspace together with others, as in `p + r`."""
    terms = next((terms for terms in space.ranks if dim in [term.dim for term in terms]), ())
    return len(terms) > 1


def window_dims(einsum: CascadeEinsum, tensors: Collection[str]) -> frozenset[str]:
    """Return the dimensions that move a window of some tensors, by more than one tile after the other."""
    bound = einsum.problem.bound
    found: set[str] = set()
    for space in (einsum.space(own.dataspace) for own in einsum.accesses if own.tensor in tensors):
        ranks = [[term for term in terms if bound[term.dim] > 1] for terms in space.ranks]
        every = [term.dim for terms in ranks for term in terms]
        found.update(dim for terms in ranks if len(terms) > 1 for dim in (term.dim for term in terms))
        found.update(dim for dim in every if every.count(dim) > 1)
        found.update(term.dim for terms in ranks for term in terms if abs(term.coefficient) > 1)
    return frozenset(found)


def path_dims(path: LeafPath, depth: int) -> tuple[str, ...]:
    """Return the dimensions that the first `depth` loops of a leaf run over."""
    return tuple(dict.fromkeys(loop.dim(path.leaf.einsum) for loop in path.loops[:depth]))
