"""What several test modules share."""

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = REPOSITORY.parent / "shared"


def pytest_terminal_summary(terminalreporter):
    """Say how many tests could not compare with reference figures: skips are easily overlooked."""
    reasons = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", ())]
    absent = sum("absent" in reason for reason in reasons)
    if absent:
        terminalreporter.write_line(f"{absent} tests skipped: reference figures in {SHARED} are absent")
