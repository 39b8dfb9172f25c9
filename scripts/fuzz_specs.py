"""Feeds damaged specs to the readers and counts the outcomes.

`--reader` selects the kind of spec: an architecture with a problem, an AccelForge workload or architecture,
a network for `assign`, its methods, a tiling backend, an older spec, a topology, a model, a fused mapping,
a result, a contest's instance, or a cached result. Every input must load, or end in a printable
`SpecError`, within `--slowest` seconds. What loads is used as the commands use it
(`scripts/fuzz_readers.py`), and every `--map-every`-th input is searched briefly. Anything else is a failure:
the input is written into the directory `--failures`, and the exit code is 1.

Inputs depend only on the seed and their number, not on the number of workers.
"""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fuzz_readers import READERS
from spec_mutation import BytesMutator, JsonMutator, Mutator

from model.text.source import SpecError

CHUNK = 500
SHOWN = 40
WAITING = 12
"""How many times its processor time an input may take on the clock."""
KIBI_PER_MEBI = 1024
_VARYING = re.compile(r"`[^`]*`|\d+(\.\d+)?(e[+-]?\d+)?|(?<=: ).*", re.DOTALL)


class HangError(Exception):
    """An input took too long."""


@dataclass
class Tally:
    """The outcomes of some inputs."""

    outcomes: Counter[str] = field(default_factory=collections.Counter)
    slowest_s: float = 0.0  # processor time
    slowest: int = 0  # the number of that input
    failures: list[tuple[int, str]] = field(default_factory=list)  # number and traceback
    peak_mib: float = 0.0  # resident memory of a worker

    def add(self, other: Tally) -> None:
        """Add the outcomes of a chunk of inputs."""
        self.outcomes.update(other.outcomes)
        self.failures += other.failures
        self.slowest_s, self.slowest = max((self.slowest_s, self.slowest), (other.slowest_s, other.slowest))
        self.peak_mib = max(self.peak_mib, other.peak_mib)


AnyMutator = Mutator | JsonMutator | BytesMutator


def mutator_of(reader: str, seed: int) -> AnyMutator:
    """Return the mutator of the specs of a reader."""
    seeds = READERS[reader].seeds()
    files = tuple(own for own in seeds if isinstance(own, bytes))
    if files:
        return BytesMutator(seed, files)
    texts = tuple(map(str, seeds))
    return JsonMutator(seed, texts) if READERS[reader].suffix == ".json" else Mutator(seed, texts)


def examine(reader: str, path: Path, search: bool) -> str:
    """Return the outcome of one spec file: why it is refused, or how far it went."""
    try:
        return READERS[reader].use(path, search)
    except SpecError as error:
        shown = error.render()
        unsafe = [character for character in shown if not character.isprintable() and character != "\n"]
        if unsafe:
            raise AssertionError(f"the message holds {unsafe[0]!r}") from error
        return f"refused: {_VARYING.sub('_', error.message)}"


def fuzz(seed: int, numbers: range, slowest_s: float, map_every: int, reader: str = "architecture") -> Tally:
    """Examine some inputs."""
    mutator = mutator_of(reader, seed)
    tally = Tally()
    signal.signal(signal.SIGPROF, _on_alarm)
    signal.signal(signal.SIGALRM, _on_alarm)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / f"spec{READERS[reader].suffix}"
        for number in numbers:
            path.write_bytes(mutator.content(number))
            work = partial(examine, reader, path, number % map_every == 0)
            tally.add(_tally_of(number, work, slowest_s))
    tally.peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KIBI_PER_MEBI
    return tally


def _tally_of(number: int, work: Callable[[], str], slowest_s: float) -> Tally:
    """Return the outcome of one input, within so much time."""
    tally = Tally(slowest=number)
    start = time.process_time()
    _set_alarms(slowest_s)
    try:
        tally.outcomes[work()] += 1
    except Exception:
        tally.failures.append((number, traceback.format_exc()))
    finally:
        _set_alarms(0)
    tally.slowest_s = time.process_time() - start
    return tally


def _set_alarms(slowest_s: float) -> None:
    """Limit the processor time, however busy the machine is, and more loosely the time on the clock."""
    signal.setitimer(signal.ITIMER_PROF, slowest_s)
    signal.setitimer(signal.ITIMER_REAL, WAITING * slowest_s)


def _on_alarm(_number: int, _frame: FrameType | None) -> None:
    raise HangError


def _fuzz_chunk(arguments: tuple[int, range, float, int, str]) -> Tally:
    return fuzz(*arguments)


def _chunks(count: int) -> Iterator[range]:
    for start in range(0, count, CHUNK):
        yield range(start, min(count, start + CHUNK))


def _report(options: argparse.Namespace, tally: Tally, seconds: float) -> str:
    refused = {text: count for text, count in tally.outcomes.items() if text.startswith("refused")}
    others = {text: count for text, count in tally.outcomes.items() if text not in refused}
    lines = [
        f"inputs {options.count:,} of {options.reader}, seed {options.seed}, {seconds:,.0f} s with "
        f"{options.jobs} workers",
        f"failures {len(tally.failures)}",
        f"slowest input {tally.slowest_s:.2f} s (number {tally.slowest})",
        f"peak memory {tally.peak_mib:,.0f} MiB",
        *(f"{count:>9,}  {text}" for text, count in sorted(others.items(), key=lambda item: -item[1])),
        f"{sum(refused.values()):>9,}  refused, for {len(refused)} different reasons; the most frequent:",
    ]
    most = sorted(refused.items(), key=lambda item: -item[1])[:SHOWN]
    return "\n".join([*lines, *(f"{count:>9,}    {text.removeprefix('refused: ')}" for text, count in most)])


def _write_failures(directory: Path, mutator: AnyMutator, name: str, failures: list[tuple[int, str]]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for number, text in failures:
        (directory / f"{name}-{number}.input").write_bytes(mutator.content(number))
        (directory / f"{name}-{number}.txt").write_text(text)


def main() -> int:
    """Run the fuzzer as the arguments say."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=10_000, help="inputs (default: %(default)s)")
    parser.add_argument("--reader", choices=tuple(READERS), default="architecture")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument(
        "--slowest",
        type=float,
        default=5.0,
        metavar="S",
        help="seconds of processor time that an input may take",
    )
    parser.add_argument("--map-every", type=int, default=20, metavar="N", help="search one input in N")
    parser.add_argument("--failures", type=Path, default=Path("fuzz-failures"), metavar="DIR")
    options = parser.parse_args()
    start = time.perf_counter()
    total = Tally()
    settings = options.slowest, options.map_every, options.reader
    work = ((options.seed, chunk, *settings) for chunk in _chunks(options.count))
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for tally in pool.imap_unordered(_fuzz_chunk, work):
            total.add(tally)
    print(_report(options, total, time.perf_counter() - start))
    if not total.failures:
        return 0
    name, mutator = f"{options.reader}-{options.seed}", mutator_of(options.reader, options.seed)
    _write_failures(options.failures, mutator, name, total.failures)
    return 1


if __name__ == "__main__":
    sys.exit(main())
