"""A short run of ``scripts/agree_curves.py``; docs/bound.md has a long one."""

import runpy

import pytest

from tests.conftest import REPOSITORY
from tests.slow import few

SCRIPT = runpy.run_path(str(REPOSITORY / "scripts" / "agree_curves.py"))


@pytest.mark.parametrize("seed", few((1, 2, 9, 21, 0, 3, 10, 12), 3))
def test_curves_agree_with_searches_and_the_checker(seed):
    found = SCRIPT["compared"](seed, 6, 60.0)
    assert found.wrong == []
    assert found.equal > 0


def test_curves_agree_with_enumeration():
    console = SCRIPT["Console"](quiet=True)
    assert SCRIPT["enumerated"](6, 100, console) == 0
