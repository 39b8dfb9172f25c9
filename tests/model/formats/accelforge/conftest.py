"""Workloads written for one test."""

from collections.abc import Callable
from pathlib import Path

import pytest

from model.formats.accelforge import LoadedWorkload, load_workload
from model.text.source import SpecError


@pytest.fixture
def load(working_directory: Path) -> Callable[..., LoadedWorkload]:
    """Return a function that loads a text as the file ``w.yaml``."""

    def loaded(text: str, ignore_sparse: bool = False, **variables: object) -> LoadedWorkload:
        Path("w.yaml").write_text(text, encoding="utf-8")
        return load_workload(["w.yaml"], variables, ignore_sparse=ignore_sparse)

    return loaded


@pytest.fixture
def refuse(load: Callable[..., LoadedWorkload]) -> Callable[..., SpecError]:
    """Return a function that loads a bad text and gives its error."""

    def refused(text: str, **variables: object) -> SpecError:
        with pytest.raises(SpecError) as caught:
            load(text, **variables)
        assert caught.value.span is not None
        return caught.value

    return refused
