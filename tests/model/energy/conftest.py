"""Spec text as nodes, for the tests of the energy layer."""

import pytest

from model.text.reader import read_files


@pytest.fixture
def parse(tmp_path):
    """Read a YAML mapping as the spec layer does; the file is called ERT.yaml unless named."""

    def read(text, name="ERT.yaml"):
        path = tmp_path / name
        path.write_text(text)
        return read_files([path])

    return read
