"""What all test modules share."""

import gc
import importlib
import math
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

os.environ.pop("COLUMNS", None)  # reports would fit their tables to it

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = REPOSITORY.parent / "shared"

if sys.dont_write_bytecode:  # every process would compile all modules anew: keep them elsewhere
    sys.pycache_prefix = str(Path.home() / ".cache" / "tilewright-tests")
    sys.dont_write_bytecode = False
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

pytest.register_assert_rewrite("tests.solver.search.holding")

# Examples may take long where several processes run tests.
settings.register_profile("shared machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared machine")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Run all tests on all cores, but a part of them in this process, unless ``-n`` says otherwise."""
    return None if config.args_source is pytest.Config.ArgsSource.TESTPATHS else 0


def pytest_collection_finish() -> None:
    """Leave modules and collected tests out of garbage collections, which take a tenth of the time else."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Results are kept in a directory of this process; commands start no workers unless ``--jobs`` asks."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.setattr(os, "cpu_count", lambda: 1)


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let searches take as long as they need where no limit is given: seconds depend on the machine."""
    for module in ("solver.search.mapper", "solver.stages", "solver.fusion.mapper"):
        monkeypatch.setattr(importlib.import_module(module), "REMAINDERS_S", math.inf)
    monkeypatch.setattr(importlib.import_module("solver.cli.running"), "EXPLAIN_TIME_LIMIT_S", math.inf)
    monkeypatch.setattr(importlib.import_module("solver.cli.together"), "CHECK_TIME_LIMIT_S", 3600.0)


@dataclass
class Clock:
    """Stands for the module `time`, and goes on only where a test says so."""

    now_s: float = 0.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of searches and of those that fall back on others, set by the test."""
    own = Clock()
    for module in ("solver.result", "solver.stages"):
        monkeypatch.setattr(importlib.import_module(module), "time", own)
    return own


@pytest.fixture
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, for this test."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt at SIGINT, which a process that starts in the background ignores."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def pytest_terminal_summary(terminalreporter):
    """Say how many tests could not compare with reference figures: skips are easily overlooked."""
    reasons = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", ())]
    absent = sum("absent" in reason for reason in reasons)
    if absent:
        terminalreporter.write_line(f"{absent} tests skipped: reference figures in {SHARED} are absent")
