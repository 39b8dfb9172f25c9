"""Outputs are checked before a search and written after it."""

import io
from pathlib import Path

import pytest

from solver.cli.output import STDOUT, OutputError, check_outputs, deliver, write_output, write_stdout
from solver.report.pictures import PlotError


def test_paths_that_can_be_written_pass(tmp_path):
    existing = tmp_path / "there.json"
    existing.write_text("old")
    check_outputs([existing, tmp_path / "new.json", STDOUT, None, None], [tmp_path / "spec.yaml"])


@pytest.mark.skipif(not Path("/dev/null").is_char_device(), reason="there is no such device here")
def test_a_device_takes_several_outputs(tmp_path):
    (tmp_path / "link").symlink_to("/dev/null")
    check_outputs([Path("/dev/null"), Path("/dev/null"), tmp_path / "link"], [])


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (["."], "it is a directory"),
        (["missing/out.json"], "there is no directory"),
        (["o" * 5000], "File name too long"),
        (["out", "out"], "the same path"),
        (["out", "folder/../out"], "the same path"),
        (["out", "link"], "the same path"),
        (["./spec.yaml"], "it is one of the inputs"),
    ],
)
def test_paths_that_cannot_be_written_are_named(paths, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("link").symlink_to("out")
    with pytest.raises(OutputError, match=message):
        check_outputs([Path(path) for path in paths], [Path("spec.yaml")])


def test_the_specs_of_a_directory_are_inputs(tmp_path):
    check_outputs([tmp_path / "out.json", tmp_path / "out.csv"], [tmp_path])
    with pytest.raises(OutputError, match="it is one of the inputs"):
        check_outputs([tmp_path / "layer.yaml"], [tmp_path / "."])


def fails(error: Exception) -> None:
    raise error


FULL, UNREAD, UNDRAWN = OutputError("full"), BrokenPipeError(), PlotError("undrawn")


@pytest.mark.parametrize(
    ("failures", "raised", "said"),
    [
        ([FULL], FULL, ""),
        ([UNREAD], UNREAD, ""),
        ([UNREAD, FULL, UNDRAWN], UNDRAWN, "error: full\n"),
        ([UNDRAWN, UNREAD], UNDRAWN, ""),
    ],
)
def test_a_step_that_fails_takes_no_other_along(failures, raised, said, capsys):
    done: list[int] = []
    steps = [step for error in failures for step in (lambda e=error: fails(e), lambda: done.append(1))]
    with pytest.raises(type(raised)) as caught:
        deliver(steps)
    assert caught.value is raised
    assert len(done) == len(failures)
    assert capsys.readouterr().err == said


def test_text_goes_to_the_file_or_to_stdout(tmp_path, capsys):
    write_output(tmp_path / "out", "text\n")
    assert (tmp_path / "out").read_text() == "text\n"
    write_output(STDOUT, "text\n")
    assert capsys.readouterr().out == "text\n"


@pytest.mark.parametrize(
    ("encoding", "arrives"),
    [
        ("utf-8", "─ ä \\udcff"),
        ("ascii", "- \\xe4 \\udcff"),
        ("latin-1", "- ä \\udcff"),
        ("cp437", "─ ä \\udcff"),
        ("utf-16-le", "─ ä \\udcff"),
    ],
)
def test_text_arrives_whatever_the_encoding_of_stdout(encoding, arrives, monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding=encoding))
    write_stdout("─ ä \udcff")
    assert written.getvalue().decode(encoding) == arrives


def test_names_that_are_no_text_are_escaped_in_files(tmp_path):
    write_output(tmp_path / "out", "\udcff ─")
    assert (tmp_path / "out").read_text(encoding="utf-8") == "\\udcff ─"


def test_a_failing_write_is_an_output_error(tmp_path):
    with pytest.raises(OutputError, match="cannot write"):
        write_output(tmp_path / "missing" / "out", "text")


def test_every_output_that_cannot_be_written_is_reported(tmp_path, capsys):
    with pytest.raises(OutputError, match="it is a directory"):
        check_outputs([tmp_path / "one", tmp_path / "x" / "two", tmp_path], [tmp_path / "one"])
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"error: cannot write {tmp_path / 'one'}: it is one of the inputs"
    assert second.startswith(f"error: cannot write {tmp_path / 'x' / 'two'}: there is no directory")
