"""Einsums that are given as text, such as ``Z[m,n] = A[m,k] * B[k,n]``, as workloads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from model.text.source import SpecError

_EINSUM = re.compile(r"\s*(\w+)\s*\[[^\]{}]*\]\s*=\s*[^{}]+")
_TENSOR = re.compile(r"([A-Za-z]\w*)\s*\[([^\]]*)\]")


def is_einsum(text: str) -> bool:
    """Whether a text is an Einsum, and no path."""
    return _EINSUM.fullmatch(text) is not None


def indices_of(text: str) -> set[str]:
    """Return the indices of an Einsum."""
    return {word for _, inside in _TENSOR.findall(text) for word in re.findall(r"[A-Za-z_]\w*", inside)}


def tensors_of(text: str) -> list[str]:
    """Return the tensors of an Einsum, the output first, each once."""
    return list(dict.fromkeys(name for name, _ in _TENSOR.findall(text)))


def workload_of(
    texts: Sequence[str], bounds: Mapping[str, int], bits: Mapping[str, int], size_hint: str
) -> dict[str, Any]:
    """Return a workload of Einsums, with the names of dataspaces that architectures use.

    Parameters
    ----------
    bounds
        Sizes of the indices, of no others.
    bits
        Of values, by tensor, or for ``All``.
    size_hint
        Says how a size is given, with ``{}`` for the index.
    """
    indices = set[str]().union(*map(indices_of, texts))
    if missing := sorted(indices - bounds.keys()):
        hint = f"give it as {size_hint.format(missing[0])}"
        raise SpecError(f"the size of `{missing[0]}` is not given", hint=hint)
    if unused := sorted(bounds.keys() - indices):
        raise SpecError(f"the Einsum has no index `{unused[0]}`")
    for name, size in bounds.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise SpecError(f"the size of `{name}` must be a positive integer, but is {size!r}")
    return {
        "workload": {
            "bits_per_value": dict(bits),
            "iteration_space_shape": {name: f"0 <= {name} < {size}" for name, size in bounds.items()},
            "einsums": list(map(_workload_einsum, texts)),
        }
    }


def _workload_einsum(text: str) -> dict[str, Any]:
    """An Einsum of a workload, whose first operand is the input, and all others weights."""
    (output, _), *operands = _TENSOR.findall(text)
    names = list(dict.fromkeys(name for name, _ in operands))
    renames = {"output": output, "input": names[0] if names else "Nothing"}
    renames |= {"weight": " | ".join(names[1:])} if names[1:] else {}
    return {"name": output, "einsum": text, "renames": renames}
