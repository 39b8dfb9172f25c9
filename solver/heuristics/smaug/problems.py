"""Finds the operator in a canonical problem: a convolution or a matrix product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from model.problem import Dataspace, Problem, Term
from model.tiling.operators import INPUTS, OUTPUTS, WEIGHTS, Convolution, InnerProduct
from solver.heuristics.interface import MapperError

WEIGHT_NAMES = ("weight", "filter", "kernel")
"""How names of weights begin, in lower case; needed where both operands look alike."""


@dataclass(frozen=True)
class FoundOperator:
    """An operator and what its parts are called in the problem.

    Parameters
    ----------
    operator
        What is computed, without padding: the problem's inputs are as large as its windows reach.
    dataspaces
        Name of the problem's dataspace by name of the operator's tensor.
    dims
        Dimension of the problem by letter: N batch, P and Q rows and columns of outputs, K output
        features, C channels, R and S rows and columns of the filter. Letters without a dimension are
        missing; their size is 1.
    groups
        Dimensions that index all tensors: each of their points is an operator of its own.
    """

    operator: Convolution | InnerProduct
    dataspaces: dict[str, str]
    dims: dict[str, str]
    groups: tuple[str, ...] = ()


def find_operator(problem: Problem) -> FoundOperator:
    """Return the operator that a problem is.

    Raises
    ------
    MapperError
        If it is neither a convolution nor a product of two matrices (several side by side, in groups or
        batches, are in order), or one of a kind that SMAUG's tiling does not know, such as a dilated one.
    """
    outputs = [space for space in problem.dataspaces if space.read_write]
    operands = [space for space in problem.dataspaces if not space.read_write]
    if len(outputs) != 1 or len(operands) != 2 or any(len(rank) > 1 for rank in outputs[0].ranks):
        raise MapperError("SMAUG tiles convolutions and matrix products: two operands, one output")
    windowed = [space for space in operands if any(len(rank) > 1 for rank in space.ranks)]
    if len(windowed) > 1:
        raise MapperError("both operands have ranks of more than one dimension; in a convolution one has")
    inputs = windowed[0] if windowed else _inputs_of_product(operands)
    weights = operands[1] if operands[0] is inputs else operands[0]
    names = {INPUTS: inputs.name, WEIGHTS: weights.name, OUTPUTS: outputs[0].name}
    groups = tuple(
        dim
        for dim in problem.dims
        if dim in inputs.dims & weights.dims & outputs[0].dims and problem.bound[dim] > 1
    )
    dims = _shared_dims(problem, inputs, weights, outputs[0])
    if not windowed:
        return FoundOperator(_inner_product(problem, dims), names, dims, groups)
    windows = [rank for rank in inputs.ranks if len(rank) > 1]
    if len(windows) > 2:
        raise MapperError("SMAUG's convolutions have windows along two ranks at most")
    strides = (1, 1)
    for number, rank in enumerate(windows):
        place, offset = _window(problem, rank, outputs[0], weights)
        dims |= {"PQ"[number]: place.dim, "RS"[number]: offset.dim}
        strides = (place.coefficient, 1) if number == 0 else (strides[0], place.coefficient)
    return FoundOperator(_convolution(problem, dims, strides), names, dims, groups)


def _inputs_of_product(operands: Sequence[Dataspace]) -> Dataspace:
    """Return the operand that is not named like weights; the first one if neither or both are."""
    others = [space for space in operands if not space.name.lower().startswith(WEIGHT_NAMES)]
    return others[0] if others else operands[0]


def _shared_dims(
    problem: Problem, inputs: Dataspace, weights: Dataspace, outputs: Dataspace
) -> dict[str, str]:
    """Return batch, features and channels: the dimensions of exactly two tensors outside of windows.

    Dimensions of bound 1 are in nobody's way, and those of all three are groups.
    """
    groups = inputs.dims & weights.dims & outputs.dims
    of_inputs, of_weights, of_outputs = (
        {dim for dim in space.dims - groups if problem.bound[dim] > 1} for space in (inputs, weights, outputs)
    )
    in_windows = {term.dim for rank in inputs.ranks if len(rank) > 1 for term in rank}
    found = {
        "N": (of_inputs & of_outputs) - in_windows,
        "K": of_weights & of_outputs,
        "C": (of_inputs & of_weights) - in_windows,
    }
    covered = in_windows.union(groups, *found.values())
    rest = {dim for dim in problem.dims if problem.bound[dim] > 1} - covered
    if rest or any(len(dims) > 1 for dims in found.values()):
        raise MapperError("SMAUG knows one dimension each for batches, output features and channels")
    return {letter: next(iter(dims)) for letter, dims in found.items() if dims}


def _window(
    problem: Problem, rank: tuple[Term, ...], outputs: Dataspace, weights: Dataspace
) -> tuple[Term, Term]:
    """Return which term of a rank of inputs is the place of the window, and which the offset in it."""
    places = [term for term in rank if term.dim in outputs.dims and term.dim not in weights.dims]
    offsets = [term for term in rank if term.dim in weights.dims and term.dim not in outputs.dims]
    if len(rank) != 2 or len(places) != 1 or len(offsets) != 1:
        raise MapperError("a rank of the inputs is not the place of a window plus an offset in it")
    place, offset = places[0], offsets[0]
    if offset.coefficient != 1 and problem.bound[offset.dim] > 1:
        raise MapperError("SMAUG knows no dilated convolutions")
    if place.coefficient < 1:
        raise MapperError("a window's stride is negative")
    return place, offset


def _inner_product(problem: Problem, dims: dict[str, str]) -> InnerProduct:
    batch, features, channels = (_bound(problem, dims, letter) for letter in "NKC")
    return InnerProduct((batch, channels), features)


def _convolution(problem: Problem, dims: dict[str, str], strides: tuple[int, int]) -> Convolution:
    batch, features, channels = (_bound(problem, dims, letter) for letter in "NKC")
    kernel = (_bound(problem, dims, "R"), _bound(problem, dims, "S"))
    height, width = (
        (_bound(problem, dims, letter) - 1) * stride + field
        for letter, stride, field in zip("PQ", strides, kernel, strict=True)
    )
    return Convolution((batch, height, width, channels), kernel, features, strides)


def _bound(problem: Problem, dims: dict[str, str], letter: str) -> int:
    return problem.bound[dims[letter]] if letter in dims else 1
