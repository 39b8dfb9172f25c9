"""What several test modules share."""

from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = REPOSITORY.parent / "shared"

pytest.register_assert_rewrite("tests.solver.search.holding")


@pytest.fixture
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, for this test."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def pytest_terminal_summary(terminalreporter):
    """Say how many tests could not compare with reference figures: skips are easily overlooked."""
    reasons = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", ())]
    absent = sum("absent" in reason for reason in reasons)
    if absent:
        terminalreporter.write_line(f"{absent} tests skipped: reference figures in {SHARED} are absent")
