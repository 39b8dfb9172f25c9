"""Spec texts that the tests of this package build upon."""

import textwrap
from dataclasses import fields

import pytest

from model.formats.timeloop import LoadedSpec, LoadOptions
from model.formats.timeloop.loader import load_node
from model.formats.timeloop.options import TimeloopOptions
from model.text.composer import compose
from model.text.limits import Limits
from model.text.source import Document, MappingNode, SpecError

PROBLEM = """\
problem:
  shape:
    name: conv1d
    dimensions: [R, P, C, K]
    coefficients:
    - {name: Stride, default: 1}
    - {name: Dilation, default: 1}
    data-spaces:
    - {name: Weights, projection: [[[R]], [[C]], [[K]]]}
    - {name: Inputs, projection: [[[C]], [[R, Dilation], [P, Stride]]]}
    - {name: Outputs, projection: [[[K]], [[P]]], read-write: true}
  instance: {R: 3, P: 16, C: 4, K: 8}
"""

DRAM = """\
  - !Component
    name: DRAM
    class: DRAM
    attributes: {width: 64, datawidth: 16}
    energy: {read: 512, write: 512, leak: 0}
"""
BUFFER = """\
  - !Component
    name: buffer
    class: SRAM
    attributes: {width: 64, depth: 256, datawidth: 16}
    energy: {read: 18.18, write: 14.1, update: 15, leak: 0.005}
"""
ARRAY = """\
  - !Container
    name: PE
    spatial: {meshX: 4, meshY: 2}
"""
SPAD = """\
  - !Component
    name: spad
    class: regfile
    attributes: {width: 16, depth: 32, datawidth: 16}
    energy: {read: 0.25, write: 0.25, leak: 0}
"""
MAC = """\
  - !Component
    name: mac
    class: intmac
    energy: 0.5
"""
NODES = (DRAM, BUFFER, ARRAY, SPAD, MAC)


def architecture(*nodes: str) -> str:
    """Return the section ``architecture`` with these nodes, or the usual ones."""
    return "architecture:\n  version: 0.4\n  nodes:\n" + "".join(nodes or NODES)


def spec(*sections: str, problem: str = PROBLEM, arch: str | None = None) -> str:
    """Return a whole spec: a problem, an architecture, and further sections."""
    return problem + (architecture() if arch is None else arch) + "".join(map(textwrap.dedent, sections))


def constrained(node: str, constraints: str) -> str:
    """Return a node with constraints, written as a flow mapping."""
    return f"{node}    constraints: {constraints}\n"


def load(text: str, **options: object) -> LoadedSpec:
    """Read a spec from a text."""
    top = compose(Document.of("spec.yaml", text), Limits())
    assert isinstance(top, MappingNode)
    own = {field.name for field in fields(TimeloopOptions)}
    timeloop = TimeloopOptions(**{name: options.pop(name) for name in own & options.keys()})
    return load_node(top, (), LoadOptions(timeloop=timeloop, **options))


def failure(text: str, **options: object) -> SpecError:
    """Return the error that a spec ends in."""
    with pytest.raises(SpecError) as caught:
        load(text, **options)
    return caught.value


def marked(error: SpecError) -> str:
    """Return the part of the source that the error's caret marks."""
    span = error.span
    assert span is not None
    assert span.source is not None
    line = span.source.line(span.line)
    assert line is not None
    return line[span.column - 1 : span.end_column - 1 if span.end_line == span.line else None]


def assert_fails(text: str, message: str, mark: str | None, **options: object) -> None:
    """Assert that reading `text` fails with `message`, at a place, and marks `mark` if that is given."""
    error = failure(text, **options)
    assert message in error.message
    assert error.span is not None
    if mark is not None:
        assert marked(error) == mark
