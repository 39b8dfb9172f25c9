"""Opens reports in headless Chromium, at the width of a desk and of a phone, light and dark.

    python scripts/check_pages.py layer.html network.html --axe node_modules/axe-core/axe.min.js

Says of each view: errors of scripts and of the page's policy, what lies beyond the page's edge, and serious
faults of accessibility as axe-core (`npm pack axe-core`) knows them, if it is given. With `--screenshots DIR`
there is a picture of each view, to be looked at. Exits with 1 if there is a fault. Pages are copied into a
frame that has the width and the colours; only in the copy the policy lets the checks run.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from shutil import which

WIDTHS, SCHEMES = (1400, 390), ("light", "dark")
PATIENCE_MS = 30_000
LEAST_HEIGHT = 900
LARGEST_BYTES = 1 << 20
"""More is a fault of a page."""

NEEDED = "chromium", "chromium-browser", "google-chrome"

OVERFLOW = """
const edge = innerWidth + 1, scrolls = (element) => {
  for (let own = element; own && own !== document.body; own = own.parentElement)
    if (["auto", "scroll", "hidden"].includes(getComputedStyle(own).overflowX)) return true;
  return false;
};
const beyond = [...document.body.querySelectorAll("*")].filter((own) => {
  const box = own.getBoundingClientRect();
  return box.width && (box.right > edge || box.left < -1) && !scrolls(own);
});
const cut = [...document.querySelectorAll("svg text")].filter((own) => {
  const box = own.getBoundingClientRect(), frame = own.ownerSVGElement.getBoundingClientRect();
  return box.width && (box.right > frame.right + 1 || box.left < frame.left - 1);
});
const named = (own) => `${own.tagName} ${own.textContent.trim().slice(0, 40)}`;
faults.push(...beyond.slice(0, 5).map((own) => `beyond the edge: ${named(own)}`));
faults.push(...cut.slice(0, 5).map((own) => `cut off in its figure: ${named(own)}`));
const hidden = [...document.querySelectorAll(".table")].filter((own) =>
  own.scrollWidth > own.clientWidth + 1 && own.getBoundingClientRect().right + 40 < innerWidth);
faults.push(...hidden.slice(0, 5).map((own) => `cut off beside an empty margin: ${named(own)}`));
if (document.documentElement.scrollWidth > edge) faults.push("the page scrolls sideways");
"""

CHECKS = """
const faults = [];
addEventListener("error", (event) => faults.push(`error: ${event.message}`));
addEventListener("securitypolicyviolation", (event) => faults.push(`policy: ${event.violatedDirective}`));
const errors = console.error;
console.error = (...words) => { faults.push(`console: ${words.join(" ")}`); errors(...words); };
addEventListener("load", async () => {
  %s
  const height = document.documentElement.scrollHeight;
  if (window.axe) {
    const { violations } = await axe.run(document, { resultTypes: ["violations"] });
    const grave = violations.filter((own) => ["serious", "critical"].includes(own.impact));
    for (const own of grave)
      for (const node of own.nodes.slice(0, 3)) faults.push(`axe ${own.id}: ${node.html.slice(0, 120)}`);
  }
  parent.postMessage(JSON.stringify({ height, faults }), "*");
});
"""

FRAME = """<!DOCTYPE html><html lang="en"><body style="margin:0">
<iframe title="page" src="{page}"
  style="width:{width}px;height:{height}px;border:0;color-scheme:{scheme}"></iframe>
<pre id="answer"></pre>
<script>
const answer = document.getElementById("answer");
addEventListener("message", (event) => {{ answer.textContent = event.data; }});
</script></body></html>
"""


@dataclass(frozen=True)
class View:
    """A page as somebody sees it."""

    page: Path
    width: int
    scheme: str

    @property
    def name(self) -> str:
        """Of its picture."""
        return f"{self.page.stem}-{self.width}-{self.scheme}.png"


@dataclass(frozen=True)
class Browser:
    """Chromium, and a folder for copies of pages."""

    program: str
    folder: Path
    axe: str

    def faults(self, view: View) -> tuple[list[str], int]:
        """Return what is wrong with a view, and its height."""
        frame = self._framed(view, LEAST_HEIGHT)
        words = [f"--virtual-time-budget={PATIENCE_MS}", "--window-size=1600,900", "--dump-dom"]
        text = self._run(words, frame)
        answer = re.search(r'<pre id="answer">(.+?)</pre>', text, re.DOTALL)
        if answer is None:
            return ["the checks did not end"], LEAST_HEIGHT
        found = json.loads(html.unescape(answer[1]))
        return found["faults"], int(found["height"])

    def take_picture(self, view: View, height: int, path: Path) -> None:
        """Write a picture of a view."""
        size = f"--window-size={view.width},{height}"
        self._run([size, "--hide-scrollbars", f"--screenshot={path.resolve()}"], self._framed(view, height))

    def _run(self, words: Sequence[str], page: Path) -> str:
        fixed = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self.folder / 'profile'}"]
        run = subprocess.run(
            [self.program, *fixed, *words, page.as_uri()], capture_output=True, text=True, check=True
        )
        return run.stdout

    def _framed(self, view: View, height: int) -> Path:
        copy, frame = self.folder / "page.html", self.folder / "frame.html"
        text = view.page.read_text(encoding="utf-8")
        # The page's own policy stays in force for all but what is added here.
        text = re.sub(r"script-src '(sha256-[^']*)'", r"script-src 'unsafe-inline' 'unsafe-eval'", text)
        added = f"<script>{self.axe}</script><script>{CHECKS % OVERFLOW}</script>"
        copy.write_text(text.replace("</head>", f"{added}</head>", 1), encoding="utf-8")
        frame.write_text(
            FRAME.format(page=copy.name, width=view.width, height=height, scheme=view.scheme),
            encoding="utf-8",
        )
        return frame


def chromium() -> str | None:
    """Return the path of Chromium; None if it is not installed."""
    return next(filter(None, map(which, NEEDED)), None)


def looked_at(browser: Browser, views: Sequence[View], screenshots: Path | None) -> Iterator[str]:
    """Yield the faults of each view, each as a line."""
    for view in views:
        faults, height = browser.faults(view)
        if view.page.stat().st_size > LARGEST_BYTES:
            faults = [*faults, f"{view.page.stat().st_size:,} bytes"]
        if screenshots is not None:
            browser.take_picture(view, height, screenshots / view.name)
        yield from (f"{view.page.name} at {view.width} px, {view.scheme}: {fault}" for fault in faults)


def main(argv: Sequence[str] | None = None) -> int:
    """Check all views of all pages, and print what is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pages", nargs="+", type=Path, help="reports")
    parser.add_argument("--axe", type=Path, help="axe.min.js of axe-core")
    parser.add_argument("--screenshots", type=Path, metavar="DIR", help="write a picture of each view")
    parser.add_argument("--chromium", default=chromium(), help="the program")
    arguments = parser.parse_args(argv)
    if arguments.chromium is None:
        parser.error("there is no Chromium; --chromium names one")
    if arguments.screenshots is not None:
        arguments.screenshots.mkdir(parents=True, exist_ok=True)
    axe = arguments.axe.read_text(encoding="utf-8") if arguments.axe else ""
    views = [View(*own) for own in product(arguments.pages, WIDTHS, SCHEMES)]
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(arguments.chromium, Path(folder), axe)
        lines = list(looked_at(browser, views, arguments.screenshots))
    print("\n".join(lines) or f"{len(views)} views without a fault")
    return 1 if lines else 0


if __name__ == "__main__":
    raise SystemExit(main())
