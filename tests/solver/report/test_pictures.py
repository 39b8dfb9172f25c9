"""Pictures: allowed names of files, and their titles."""

from pathlib import Path

import pytest

from solver.report.pictures import PlotError, blank_figure, check_plot, save_figure, verbatim


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a $x$ b", r"a \$x\$ b"),
        ("q\udcff", "q\ufffd"),
        ("a\n\x1b[2J", "a\ufffd\ufffd[2J"),
        ("ü ł", "ü ł"),
        ("日本", "日本"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_names_are_drawn_as_they_are(name, shown, tmp_path):
    pytest.importorskip("matplotlib")
    assert verbatim(name) == shown
    figure, [[axes]] = blank_figure()
    axes.set_title(verbatim(name))
    save_figure(figure, tmp_path / "out.svg")
    save_figure(figure, tmp_path / "out.png")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("-", "a picture is not written to stdout"),
        ("a.gif", "must end in .png, .svg, .pdf"),
        ("out", "must end in"),
    ],
)
def test_a_picture_needs_a_file_of_a_known_kind(path, message):
    with pytest.raises(PlotError, match=message):
        check_plot(Path(path))


def test_no_picture_is_fine():
    check_plot(None)


def test_a_picture_that_cannot_be_written(tmp_path):
    pytest.importorskip("matplotlib")
    with pytest.raises(PlotError, match="cannot write"):
        save_figure(blank_figure()[0], tmp_path / "absent" / "out.svg")
