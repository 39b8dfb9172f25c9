"""Tiling backends: shipped ones by name, others by file."""

from __future__ import annotations

from pathlib import Path

from model.text.fields import as_int, as_name, as_sequence, check_keys, keyed_mapping, known_name
from model.text.files import SHIPPED_SPECS
from model.text.reader import read_files
from model.text.source import MappingNode, Node, SpecError
from model.tiling.tilings import DEFAULT_ORDER, Backend, Strategy, strategy_named
from model.wording import did_you_mean, listing

SIZES = (
    "num_pes",
    "num_maccs_per_pe",
    "vector_size",
    "spad_bytes",
    "element_bytes",
    "alignment",
)
CHOOSING_OPERATORS = ("convolution", "inner_product", "pooling", "batch_norm")
"""Operators that choose among strategies; the others have only one way to be cut."""

_STRATEGY_NAMES = tuple(strategy.value for strategy in Strategy)


def load_backend(name_or_file: str) -> Backend:
    """Read the backend of a name, or that of a file, which has a suffix; SpecError if there is none."""
    path = Path(name_or_file)
    if not path.suffix:
        path = _shipped(name_or_file)
    top = read_files([path])
    check_keys(top, ("backend",), "a backend file")
    section = top.require("backend", f"backend file {path}")
    node = keyed_mapping(section, "`backend`", ("name", *SIZES, "preference"), ("name", *SIZES))
    # An alignment of 0 and of 1 both mean that nothing is padded.
    sizes = {
        key: as_int(node.require(key, "`backend`"), f"`{key}`", minimum=0 if key == "alignment" else 1)
        for key in SIZES
    }
    if sizes["spad_bytes"] < sizes["element_bytes"]:
        message = (
            f"a scratchpad of {sizes['spad_bytes']} bytes holds no element of {sizes['element_bytes']} bytes"
        )
        raise SpecError(message, node.require("spad_bytes").span)
    return Backend(
        name=as_name(node.require("name", "`backend`"), "`name`"),
        preference=_preference(node.get("preference")),
        **{**sizes, "alignment": max(1, sizes["alignment"])},
    )


def backend_directory() -> Path:
    """Return the directory of the shipped backends."""
    return SHIPPED_SPECS / "backends"


def _shipped(name: str) -> Path:
    known = sorted(path.stem for path in backend_directory().glob("*.yaml"))
    if name in known:
        return backend_directory() / f"{name}.yaml"
    hint = did_you_mean(name, known) or f"shipped backends are {listing(known)}; give a file with its suffix"
    raise SpecError(f"unknown backend `{name}`", hint=hint)


def _preference(node: Node | None) -> dict[str, tuple[Strategy, ...]]:
    if node is None:
        return {}
    named = keyed_mapping(node, "`preference`", ("default", *CHOOSING_OPERATORS))
    default = _strategy_order(named, "default") if "default" in named else DEFAULT_ORDER
    return {key: _strategy_order(named, key) if key in named else default for key in CHOOSING_OPERATORS}


def _strategy_order(named: MappingNode, key: str) -> tuple[Strategy, ...]:
    items = as_sequence(named.require(key), f"`{key}`").items
    if not items:
        raise SpecError(f"`{key}` must list at least one strategy", named.key(key).span)
    order = [strategy_named(known_name(item, _STRATEGY_NAMES, "strategy")) for item in items]
    repeated = [item for item, strategy in zip(items, order, strict=True) if order.count(strategy) > 1]
    if repeated:
        raise SpecError("a strategy is listed twice", repeated[-1].span)
    return tuple(order)
