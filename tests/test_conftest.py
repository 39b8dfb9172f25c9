"""The summary of a test run."""

from types import SimpleNamespace

import pytest

from tests.conftest import pytest_terminal_summary

ABSENT = ("tests/model/test_x.py", 7, "Skipped: ../shared is absent")
OTHER = ("tests/model/test_x.py", 8, "Skipped: could not import 'islpy'")


@pytest.mark.parametrize(("reasons", "said"), [([ABSENT, OTHER, ABSENT], 1), ([OTHER], 0), ([], 0)])
def test_tests_without_their_references_are_counted(reasons, said):
    lines = []
    skipped = [SimpleNamespace(longrepr=reason) for reason in reasons]
    pytest_terminal_summary(SimpleNamespace(stats={"skipped": skipped}, write_line=lines.append))
    assert len(lines) == said
    assert all(line.startswith("2 tests skipped: ") for line in lines)
