"""The cost model and the execution of a fused mapping, compared figure by figure."""

from collections.abc import Iterator

import numpy as np

from model.fused.cascade import Cascade, CascadeEinsum
from model.fused.cost import evaluate_fused
from model.fused.mapping import FusedMapping
from model.fused.visits import Visits, path_dims
from tests.witness.fused import execute_fused, layout_of, tensor_shape


def operands_of(cascade: Cascade, seed: int) -> dict[str, np.ndarray]:
    """Random inputs of a cascade."""
    random = np.random.default_rng(seed)
    inputs = [tensor for tensor in cascade.users if tensor not in cascade.writers]
    return {tensor: random.integers(-3, 4, tensor_shape(cascade, tensor)) for tensor in inputs}


def unfused_results(cascade: Cascade, operands: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """All tensors, each Einsum computed at once."""
    values = {tensor: array.astype(np.int64) for tensor, array in operands.items()}
    for einsum in cascade.einsums:
        index = np.indices(einsum.problem.bounds).reshape(len(einsum.problem.dims), -1)
        reads = [a for a in einsum.accesses if not einsum.space(a.dataspace).read_write]
        terms = np.prod(
            [values[a.tensor].ravel()[_flat(cascade, einsum, a.dataspace, index)] for a in reads], axis=0
        )
        for access in (a for a in einsum.accesses if einsum.space(a.dataspace).read_write):
            flat = np.zeros(int(np.prod(tensor_shape(cascade, access.tensor))), dtype=np.int64)
            np.add.at(flat, _flat(cascade, einsum, access.dataspace, index), terms)
            values[access.tensor] = flat.reshape(tensor_shape(cascade, access.tensor))
    return values


def _flat(cascade: Cascade, einsum: CascadeEinsum, dataspace: str, index: np.ndarray) -> np.ndarray:
    layout = layout_of(cascade, einsum, einsum.access(dataspace))
    weights = np.array([layout.weight[dim] for dim in einsum.problem.dims], dtype=np.int64)
    return layout.origin + weights @ index


def disagreements(cascade: Cascade, mapping: FusedMapping, seed: int) -> list[str]:
    """Where the cost model and the execution differ, and where results differ from the unfused ones."""
    return list(_disagreements(cascade, mapping, seed))


def _disagreements(cascade: Cascade, mapping: FusedMapping, seed: int) -> Iterator[str]:
    operands = operands_of(cascade, seed)
    seen = execute_fused(cascade, mapping, operands)
    cost = evaluate_fused(cascade, mapping)
    alike = all(len(path.leaf.nests) <= 1 for path in mapping.paths) and _copies_alike(cascade, mapping)
    expected = unfused_results(cascade, operands)
    for tensor, array in seen.tensors.items():
        if not (array == expected[tensor]).all():
            yield f"{tensor} is {array.tolist()} instead of {expected[tensor].tolist()}"
    for einsum in cascade.einsums:
        counted = cost.einsum(einsum.name)
        if counted.visits != seen.visits[einsum.name] or counted.steps != seen.steps.get(einsum.name, 0):
            yield f"{einsum.name}: {counted.visits}, {counted.steps}; {seen.visits}, {seen.steps} seen"
        for memory in counted.memories:
            for space in memory.dataspaces:
                counts = seen.counts[einsum.name, memory.name, space.dataspace]
                theirs = (counts.reads, counts.fills, counts.updates)
                ours = (space.total_reads, space.total_fills, space.total_updates)
                if ours != theirs or counts.instances != memory.instances:
                    yield f"{einsum.name} {memory.name} {space.dataspace}: {ours} counted, {theirs} seen"
        for level in einsum.mapspace.architecture.on_chip:
            room = cost.room(einsum.name, level.name).size_words
            taken = seen.room_words.get((level.name, einsum.name), 0)
            # Tiles of unlike visits need not be largest at one time; each counts in full.
            if room < taken or (room > taken and alike):
                yield f"{einsum.name} {level.name}: room {room}, seen {seen.room_words}"


def _copies_alike(cascade: Cascade, mapping: FusedMapping) -> bool:
    """Whether no visit of a copy has more to do than others."""
    visits = Visits(cascade, mapping)
    parts = (
        visits.spans(place, dim, len(path.loops))
        for place, path in enumerate(mapping.paths)
        for dim in path_dims(path, len(path.loops))
        if cascade.einsums[place].is_copy
    )
    return all(len({high - low for low, high in spans}) == 1 for spans in parts)
