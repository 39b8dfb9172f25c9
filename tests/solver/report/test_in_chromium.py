"""Pages as Chromium lays them out: nothing beyond the edge or cut off, at a desk and on a phone."""

from pathlib import Path

import pytest

from scripts.check_pages import WIDTHS, Browser, View, chromium, looked_at
from solver.report.document import headed, result_document
from solver.report.pages import report_html
from solver.report.reading import as_value
from tests.solver.examples import MAPSPACE, OPTIMAL

PROGRAM = chromium()
LONG = '<p style="width: 3000px">wide</p>'

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium")


def faults(text, folder, widths=WIDTHS):
    page = Path(folder) / "page_checked.html"
    page.write_text(text, encoding="utf-8")
    views = [View(page, width, "light") for width in widths]
    return list(looked_at(Browser(PROGRAM, Path(folder), ""), views, None))


@pytest.fixture(scope="module")
def page():
    return report_html(as_value(headed(result_document(MAPSPACE, OPTIMAL))))


def test_a_page_fits_a_desk_and_a_phone(page, tmp_path):
    assert faults(page, tmp_path) == []


def test_what_is_too_wide_is_found(page, tmp_path):
    found = faults(page.replace("</main>", f"{LONG}</main>"), tmp_path, WIDTHS[1:])
    assert any("the page scrolls sideways" in fault for fault in found)
