"""Spec files written for one test."""

from collections.abc import Callable
from pathlib import Path

import pytest

from model.text.reader import read_files
from model.text.source import MappingNode, SpecError, to_plain


@pytest.fixture
def write(working_directory: Path) -> Callable[..., Path]:
    """Return a function that writes a file into an empty working directory."""

    def written(name: str, text: str | bytes) -> Path:
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return written


@pytest.fixture
def read(write: Callable[..., Path]) -> Callable[..., MappingNode]:
    """Return a function that reads a text as the spec file ``spec.yaml``."""

    def reader(text: str | bytes, **options: object) -> MappingNode:
        return read_files([write("spec.yaml", text)], **options)

    return reader


@pytest.fixture
def plain(read: Callable[..., MappingNode]) -> Callable[..., object]:
    """Return a function that reads a text and gives its plain content."""
    return lambda text, **options: to_plain(read(text, **options))


@pytest.fixture
def failure(read: Callable[..., MappingNode]) -> Callable[..., SpecError]:
    """Return a function that reads a bad text and gives its error."""

    def failed(text: str | bytes, **options: object) -> SpecError:
        with pytest.raises(SpecError) as caught:
            read(text, **options)
        return caught.value

    return failed
