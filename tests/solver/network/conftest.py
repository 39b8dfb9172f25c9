"""The small network, in files and read."""

from pathlib import Path

import pytest

from model.cascade import Network
from model.formats.cascade import load_network
from tests.small_network import write_specs


@pytest.fixture
def spec(working_directory: Path) -> list[Path]:
    return write_specs()


@pytest.fixture
def network(spec: list[Path]) -> Network:
    return load_network(spec)
