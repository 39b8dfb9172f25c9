"""Kills `network` at random moments, resumes it, and compares the end with a run that nobody killed.

    python scripts/kill_and_resume.py --kills 200 --seed 1

Each run continues from the results that earlier ones kept. A run that finishes is compared with the
undisturbed result, and the next one begins with an empty cache. The exit code is 1 if a result differs, or if
a run ends in another way than by the kill or with its result.
"""

from __future__ import annotations

import argparse
import json
import random
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
    directory.mkdir(exist_ok=True)
    with subprocess.Popen(
        command(directory, resume=True),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as run:
        try:
            _, said = run.communicate(timeout=most_s)
        except subprocess.TimeoutExpired:
            run.kill()
            run.communicate()
            return False
    if run.returncode != 0:
        raise RuntimeError(f"exit code {run.returncode}: {said.decode(errors='replace')}")
    return True


def resumed(root: Path, kills: int, rng: random.Random) -> list[list[list[object]]]:
    """Return the outcome of an undisturbed run in a directory, and of those between so many kills."""
    start = time.perf_counter()
    finishes(root / "0", None)
    longest_s = 0.8 * (time.perf_counter() - start)
    outcomes = [outcome(root / "0")]
    while kills:
        directory = root / str(len(outcomes))
        if finishes(directory, rng.uniform(0.05, longest_s)):
            outcomes.append(outcome(directory))
        else:
            kills -= 1
    directory = root / str(len(outcomes))
    finishes(directory, None)
    return [*outcomes, outcome(directory)]


def main() -> int:
    """Kill and resume as the arguments say."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        first, *others = resumed(Path(name), options.kills, random.Random(options.seed))
    differing = [own for own in others if own != first]
    print(f"{options.kills} kills, {len(others)} resumed networks, {len(differing)} other than undisturbed")
    print(*differing, sep="\n")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
