"""Problem shapes by name: shipped ones, and files beside the spec."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath

from model.text.fields import as_mapping
from model.text.files import SHIPPED_SPECS, SPEC_SUFFIXES, include_roots, is_file
from model.text.limits import Limits
from model.text.reader import read_files
from model.text.source import MappingNode, Span, SpecError, did_you_mean
from model.wording import listing

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\Z")


def shape_directory() -> Path:
    """Return the directory of the shipped problem shapes."""
    return SHIPPED_SPECS / "problem-shapes"


def find_shape(
    name: str, span: Span, spec_files: Sequence[Path], limits: Limits, allow_include: Iterable[Path] = ()
) -> MappingNode:
    """Return the shape of a name.

    Looked up as ``NAME.yaml`` among the shipped shapes, then in ``problem-shapes`` beside each
    spec file, then beside the file itself.

    Parameters
    ----------
    name, span
        The name, without a suffix, and its place.
    spec_files
        The files that the user named.
    limits
        Bounds on the text of the shape's file.
    allow_include
        Further directories that links may lead into.

    Returns
    -------
    MappingNode
        What stands under ``shape``.

    Raises
    ------
    SpecError
        There is no such shape, its file is malformed, or a link out of the directories that may be
        included from.
    """
    if name.endswith(SPEC_SUFFIXES):
        stem = PurePath(name).name.partition(".")[0]
        hint = f"write `shape: {stem}`: it is looked for as a shipped shape, and as a file beside the spec"
        raise SpecError(f"`{name}` is a file, not the name of a problem shape", span, hint=hint)
    if not _NAME.match(name):
        hint = "the name of a shipped shape, or of a file beside the spec without its `.yaml`"
        raise SpecError(f"`{name}` cannot name a problem shape", span, hint=hint)
    beside = [folder for path in spec_files for folder in (path.parent / "problem-shapes", path.parent)]
    for folder in (shape_directory(), *beside):
        path = folder / f"{name}.yaml"
        if is_file(path):
            include_roots(spec_files, {}, allow_include).check(path)
            return _read_shape(path, limits)
    known = sorted(path.stem for path in shape_directory().glob("*.yaml"))
    hint = did_you_mean(name, known) or f"shipped are {listing(known)}"
    raise SpecError(f"unknown problem shape `{name}`", span, hint=hint)


def _read_shape(path: Path, limits: Limits) -> MappingNode:
    top = read_files([path], limits=limits)
    problem = top.get("problem")
    holder = top if problem is None else as_mapping(problem, "`problem`")
    return as_mapping(holder.require("shape", f"problem shape {path}"), "`shape`")
