"""Kills `network` at random moments, resumes it, and compares the end with a run that nobody killed.

    python scripts/kill_and_resume.py --kills 200 --seed 1

Each run continues from the results that earlier ones kept. A run that finishes is compared with the
undisturbed result, and the next one begins with an empty cache. The exit code is 1 if a result differs, or if a
run ends in another way than by the kill or with its result.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WORKLOAD = "specs/layers/alexnet"
ARCHITECTURE = "specs/architectures/simba_like.yaml"
FIGURES = ("name", "status", "energy_pj", "cycles")


def command(directory: Path, resume: bool) -> list[str]:
    """Return the command that maps the network with the cache of a directory."""
    words = [sys.executable, "-m", "solver", "network", WORKLOAD, ARCHITECTURE, "--factors", "perfect"]
    words += ["--jobs", "2", "--cache", str(directory / "cache"), "--json", str(directory / "out.json")]
    return [*words, "--resume"] if resume else words


def outcome(directory: Path) -> list[list[object]]:
    """Return what a finished run found of each layer."""
    document = json.loads((directory / "out.json").read_text(encoding="utf-8"))
    return [[layer[name] for name in FIGURES] for layer in document["layers"]]


def finishes(directory: Path, most_s: float | None) -> bool:
    """Run with what is kept, and kill it after some time; whether it ended before with a result."""
    with subprocess.Popen(
        command(directory, resume=True),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as run:
        with contextlib.suppress(subprocess.TimeoutExpired):
            _, said = run.communicate(timeout=most_s)
            if run.returncode != 0:
                raise RuntimeError(f"exit code {run.returncode}: {said.decode(errors='replace')}")
            return True
        run.send_signal(signal.SIGKILL)
        run.communicate()
    return False


def main() -> int:
    """Kill and resume as the arguments say."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng, kills, finished = random.Random(options.seed), 0, 0
    with tempfile.TemporaryDirectory() as name:
        whole = Path(name) / "whole"
        whole.mkdir()
        start = time.perf_counter()
        finishes(whole, None)
        expected, longest_s = outcome(whole), 0.8 * (time.perf_counter() - start)
        directory = Path(name) / "0"
        while kills < options.kills:
            directory.mkdir(exist_ok=True)
            if not finishes(directory, rng.uniform(0.05, longest_s)):
                kills += 1
                continue
            finished += 1
            if outcome(directory) != expected:
                print(f"after {kills} kills:\n{outcome(directory)}\ninstead of\n{expected}")
                return 1
            directory = Path(name) / str(finished)
        directory.mkdir(exist_ok=True)
        finishes(directory, None)
        is_same = outcome(directory) == expected
    print(
        f"{kills} kills, {finished + 1} finished networks, {'all' if is_same else 'NOT all'} as undisturbed"
    )
    return 0 if is_same else 1


if __name__ == "__main__":
    sys.exit(main())
