"""Topologies of SCALE-Sim, tables of layers as comma-separated values, to the canonical workload."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from model.formats.onnx.loader import BITS, LoadedModel
from model.note import Note
from model.text.fields import LONGEST_NAME
from model.text.files import display_name, read_text
from model.text.limits import Limits
from model.text.source import SpecError, note_at
from model.wording import printable
from model.workload import MOST_EINSUMS, Einsum, RankIndex, TensorAccess, Workload

DEFAULT_BITS = 8
"""Bits of a value where the user gives none: a topology has no types."""

_CONVOLUTION = (
    "input height",
    "input width",
    "filter height",
    "filter width",
    "channels",
    "filters",
    "stride",
)
_PRODUCT = ("M", "N", "K")
_DEPTHWISE = "DP"
"""What the name of a layer contains in which each channel has filters of its own."""


def load_topology(path: Path, variables: Mapping[str, object], limits: Limits) -> LoadedModel:
    """Read the layers of a topology as Einsums with the names of Timeloop's usual dimensions.

    A row has a name, and the sizes of a convolution (height and width of the input and the filter, channels,
    filters, and one or two strides) or of a matrix product (``M``, ``N``, ``K``, as the header says). As in
    SCALE-Sim a last window may reach beyond the input.
    """
    lines = enumerate(read_text(path, limits).splitlines(), 1)
    rows = [
        (number, row) for number, line in lines if len(row := _row_fields(line)) > 1
    ]  # others are headings
    if len(rows) < 2:
        raise SpecError(f"{display_name(path)} has no layers below its header")
    if len(rows) - 1 > MOST_EINSUMS:
        raise SpecError(f"{display_name(path)} has more than {MOST_EINSUMS:,} layers")
    header, bits = rows[0][1], _bits_from_variables(variables)
    taken: dict[str, int] = {}
    einsums = tuple(
        _row_einsum(
            _free_name(row[0] or f"row {number}", taken), row, header, bits, f"{display_name(path)}:{number}"
        )
        for number, row in rows[1:]
    )
    return LoadedModel(Workload(printable(path.stem), einsums), tuple(_notes(variables)), (BITS,))


def _row_einsum(name: str, row: Sequence[str], header: Sequence[str], bits: int, where: str) -> Einsum:
    order = [title.upper() for title in header[1:4]]
    if sorted(order) == sorted(_PRODUCT):
        return _gemm(name, dict(zip(order, _leading_numbers(row[1:], order, where), strict=False)), bits)
    sizes = _leading_numbers(row[1:], _CONVOLUTION, where)
    stride_x = sizes[7] if _has_two_strides(header, sizes) else sizes[6]
    return _convolution_einsum(name, sizes, stride_x, bits, where)


def _row_fields(line: str) -> list[str]:
    """Return the fields of a row; tabs part them where there are no commas, and empty ones at its end go."""
    fields = [field.strip() for field in line.split("," if "," in line else "\t")]
    while fields and not fields[-1]:
        fields.pop()
    return fields


def _bits_from_variables(variables: Mapping[str, object]) -> int:
    bits = variables.get(BITS, DEFAULT_BITS)
    if not isinstance(bits, int) or isinstance(bits, bool) or bits < 1:
        raise SpecError(f"`{BITS}` is not a positive integer")
    return bits


def _notes(variables: Mapping[str, object]) -> Iterator[Note]:
    if BITS not in variables:
        sentence = "a topology has no types: all values have {} bits, unless `--set BITS=N` is given"
        yield note_at(None, sentence, DEFAULT_BITS)


def _leading_numbers(fields: Sequence[str], names: Sequence[str], where: str) -> list[int]:
    """Return the whole numbers that a row begins with, at least one for each of `names`."""
    if len(fields) < len(names):
        raise SpecError(
            f"{where}: a layer has {len(names)} sizes ({', '.join(names)}), this row {len(fields)}"
        )
    sizes: list[int] = []
    for place, field in enumerate(fields):
        is_size = re.fullmatch(r"[0-9]{1,9}", field) is not None and int(field) > 0
        if place >= len(names) and not is_size:
            break  # further columns, such as the share of zeros, are no sizes
        if not is_size:
            message = f"`{printable(field[:40])}` is not a whole number from 1 to 999,999,999"
            raise SpecError(f"{where}: the {names[place]} {message}")
        sizes.append(int(field))
    return sizes


def _has_two_strides(header: Sequence[str], sizes: Sequence[int]) -> bool:
    """Whether a row has a stride of columns of its own, as the header says, or does not deny."""
    return len(sizes) > len(_CONVOLUTION) and (len(header) <= 8 or "stride" in header[8].casefold())


def _gemm(name: str, sizes: Mapping[str, int], bits: int) -> Einsum:
    dims = {"P": sizes["M"], "C": sizes["K"], "K": sizes["N"]}
    indices = {dim: RankIndex.of(dim, (dim, 1)) for dim in dims}
    return _three_tensors(name, dims, bits, [["P", "C"], ["C", "K"], ["P", "K"]], indices)


def _convolution_einsum(name: str, sizes: Sequence[int], stride_x: int, bits: int, where: str) -> Einsum:
    height, width, taps_y, taps_x, channels, filters, stride_y = sizes[:7]
    for size, taps in ((height, taps_y), (width, taps_x)):
        if taps > size:
            raise SpecError(f"{where}: a filter of {taps} is larger than its input of {size}")
    groups = {"G": channels} if _DEPTHWISE in name and channels > 1 else {}
    rows, columns = -(-(height - taps_y) // stride_y) + 1, -(-(width - taps_x) // stride_x) + 1
    channel = {} if groups else {"C": channels}
    dims = {"N": 1, **groups, "K": filters, **channel, "P": rows, "R": taps_y, "Q": columns, "S": taps_x}
    indices = {dim: RankIndex.of(dim, (dim, 1)) for dim in dims}
    indices["IP"] = RankIndex.of("IP", ("P", stride_y), ("R", 1))
    indices["IQ"] = RankIndex.of("IQ", ("Q", stride_x), ("S", 1))
    across = [*groups, *channel]
    accesses = [["N", *across, "IP", "IQ"], [*groups, "K", *channel, "R", "S"], ["N", *groups, "K", "P", "Q"]]
    return _three_tensors(name, dims, bits, accesses, indices)


def _three_tensors(
    name: str,
    dims: Mapping[str, int],
    bits: int,
    accesses: Sequence[Sequence[str]],
    indices: Mapping[str, RankIndex],
) -> Einsum:
    """Return an Einsum of an input, weights and an output, each indexed as listed."""
    roles = ("input", "weight", "output")
    tensors = {role: f"{name}.{role}" for role in roles}
    return Einsum(
        name=name,
        rank_variables=tuple(dims),
        ranges=tuple(map(range, dims.values())),
        accesses=tuple(
            TensorAccess(tensors[role], tuple(indices[dim] for dim in listed), role == "output", bits)
            for role, listed in zip(roles, accesses, strict=True)
        ),
        tensor_renames=tuple((role, (tensor,)) for role, tensor in tensors.items()),
    )


def _free_name(name: str, taken: dict[str, int]) -> str:
    """Return a name, printable and short, with a number where it is taken."""
    plain = printable(name)[: LONGEST_NAME - 16]
    taken[plain] = taken.get(plain, 0) + 1
    return plain if taken[plain] == 1 else f"{plain}#{taken[plain]}"
