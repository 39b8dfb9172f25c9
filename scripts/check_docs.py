#!/usr/bin/env python3
"""Runs the commands that the documentation shows, and compares what they print with what it shows.

    python scripts/check_docs.py                  # all commands, minutes
    python scripts/check_docs.py --only pareto    # commands of pages, or commands, with this text

Neither times nor the rows of heuristics with a time limit are compared. The commands of a page run one after
the other in one directory, so that they can read what earlier ones have written. Those that are not run are
listed with the reason. Exits with 1 if a command fails, or does not print a line that is shown.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
PAGES = ("README.md", "specs/README.md", "CONTRIBUTING.md", "docs/*.md")

COMMAND = re.compile(r"(?:\$ )?(?:\.venv/bin/)?(?=tilewright (?!  |certificate )|python scripts/)(.*)")
BLOCK = re.compile(
    r"^```(?P<language>\w*)\n(?P<text>.*?)^```\n(?:\n```\n(?P<printed>.*?)^```\n)?"
    r"|^(?P<indented>(?: {4}[^\n]*\n)+)",
    re.MULTILINE | re.DOTALL,
)
PASSING_EXITS = (0, 3)

SMALL_SPEC = "specs/architectures/weight_stationary.yaml specs/layers/resnet18/21_fc.yaml"
SMALL_NETWORK = "specs/workloads/three_matmuls.yaml specs/architectures/tpu_like.yaml"
STAND_INS = {
    r"(?<=network )SPEC\.\.\.(?= --same)": "specs/layers/gemm specs/architectures/output_stationary.yaml",
    r"(?<=network )SPEC\.\.\.": SMALL_NETWORK,
    r"SPECS\b|SPEC(\.yaml)?\.\.\.": SMALL_SPEC,
    r"WORKLOAD\.yaml ARCHITECTURE\.yaml": SMALL_NETWORK,
    r"\.json\.\.\.": ".json",
    r" \[--[^]]*\]": "",
}
"""What takes the place of words that readers replace."""

ELSEWHERE = {
    r"scripts/(?!prove\.py \S+\.json)": "a script that takes minutes to hours",
    r"gpt3\.yaml": "needs AccelForge's specs",
    r"top\.yaml\.jinja2": "needs Timeloop's exercises",
    r"\.onnx": "needs an ONNX model",
    r"asplos-2025": "needs an instance of the contest",
    r"--cluster": "needs a cluster",
    r"correlation": "needs the files of the page, which tests write",
    r"evaluate (OUT|arch\.yaml|WORKLOAD)|(RESULT|A)\.json": "needs a file of yours",
}
"""Commands that are not run, and why."""

UNSTEADY = r"^(random|greedy|annealing) "
"""Rows of heuristics: what they find depends on the machine."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a page, and the lines that the page shows as its output."""

    page: str
    text: str
    shown: tuple[str, ...] = ()

    @property
    def reason(self) -> str | None:
        """Why it is not run, or None."""
        return next((reason for pattern, reason in ELSEWHERE.items() if re.search(pattern, self.text)), None)

    def filled(self, stand_ins: Mapping[str, str] = STAND_INS) -> Command:
        """Return the command with stand-ins for some of its words, by patterns."""
        text = self.text
        for pattern, stand_in in stand_ins.items():
            text = re.sub(pattern, stand_in, text)
        return replace(self, text=text)

    def words(self, directory: Path) -> list[str]:
        """Return its words, with braces and patterns of files expanded as a shell does."""
        braced = [each for word in shlex.split(self.text) for each in _expanded(word)]
        return [each for word in braced for each in _globbed(word, directory)]


def _expanded(word: str) -> list[str]:
    """Return the words that a shell makes of one with `{a,b}`."""
    begin, brace, rest = word.partition("{")
    if not brace or "[" in word:
        return [word]
    inside, _, end = rest.partition("}")
    return [begin + each + end for each in inside.split(",")]


def commands(page: str, text: str) -> Iterator[Command]:
    """Yield the commands of a page: in blocks, with what is shown as printed, then within sentences."""
    for block in BLOCK.finditer(text):
        if block["language"]:
            continue
        lines = (block["text"] or block["indented"]).replace("\\\n", " ").splitlines()
        begins = [number for number, line in enumerate(lines) if COMMAND.fullmatch(line.strip())]
        has_prompt = any(lines[number].startswith("$ ") for number in begins)
        for begin, end in pairwise([*begins, len(lines)]):
            after = lines[begin + 1 : end] if has_prompt else (block["printed"] or "").splitlines()
            yield Command(page, _command(lines[begin]), tuple(line for line in after if line.strip("─. ")))
    for quoted in re.findall(r"`([^`]+)`", BLOCK.sub("", text)):
        if COMMAND.fullmatch(line := " ".join(quoted.split())) and not re.fullmatch(
            r"tilewright \w+( --help)?", line
        ):
            yield Command(page, _command(line))


def _command(line: str) -> str:
    """Return a command without prompt, comment and the path of the interpreter."""
    found = COMMAND.fullmatch(line.strip())
    assert found is not None
    return " ".join(re.sub(r"\s# .*", "", found[1]).split())


def documented() -> list[Command]:
    """Return the commands of all pages."""
    pages = [path for pattern in PAGES for path in sorted(REPOSITORY.glob(pattern))]
    return [
        command
        for path in pages
        for command in commands(str(path.relative_to(REPOSITORY)), path.read_text(encoding="utf-8"))
    ]


def steady(line: str) -> str:
    """Return a line without times, and with one space for several."""
    return " ".join(re.sub(r"[\d.,]+ (ms|s)\b", "TIME", line).split())


def missing(shown: Sequence[str], printed: str) -> list[str]:
    """Return the lines that are shown and not printed."""
    lines = {steady(line) for line in printed.splitlines()}
    return [line for line in shown if not re.match(UNSTEADY, line) and steady(line) not in lines]


def run(command: Command, directory: Path) -> bool:
    """Run a command, report on it, and return whether it does what the page says."""
    program, *words = command.filled().words(directory)
    prefix = ["-m", "solver"] if program == "tilewright" else []
    if not prefix:
        words[0] = str(REPOSITORY / words[0])
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "COLUMNS": "160"}
    begin = os.times()
    ended = subprocess.run(
        [sys.executable, *prefix, *words],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    now = os.times()
    seconds = now.children_user + now.children_system - begin.children_user - begin.children_system
    faults = missing(command.shown, ended.stdout)
    if ended.returncode not in PASSING_EXITS:
        faults.append(f"exit code {ended.returncode}: {ended.stderr.strip()[-500:]}")
    print(f"{'FAULT' if faults else 'ok   '} {seconds:6.1f} s  {command.page}: {command.text}", flush=True)
    for fault in faults:
        print(f"      {fault}")
    return not faults


def _globbed(word: str, directory: Path) -> list[str]:
    """Return the files that a pattern names, or the word itself."""
    return [str(path) for path in sorted(directory.glob(word))] if word.endswith("*.json") else [word]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the commands, page by page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", metavar="TEXT", help="only pages or commands with this text")
    only = parser.parse_args(argv).only
    chosen = [each for each in documented() if only in each.page or only in each.text]
    passed, begin = True, time.monotonic()
    for _, own in groupby(chosen, key=lambda each: each.page):
        with tempfile.TemporaryDirectory() as name:
            (Path(name) / "specs").symlink_to(REPOSITORY / "specs")
            passed &= all(run(each, Path(name)) for each in own if each.reason is None)
    for each in chosen:
        if each.reason is not None:
            print(f"not run: {each.page}: {each.text} ({each.reason})")
    print(f"{len(chosen)} commands, {time.monotonic() - begin:.0f} s")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
