"""Files are written whole or not at all."""

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from solver.saving import save
from tests.conftest import REPOSITORY

OLD, NEW = b"the older one", b"new"


@pytest.fixture
def older(tmp_path: Path) -> Path:
    path = tmp_path / "out"
    path.write_bytes(OLD)
    return path


def names(directory: Path) -> list[str]:
    return sorted(own.name for own in directory.iterdir())


def failing(number: int, raised: type[BaseException] = OSError):
    def fail(*_, **__):
        raise raised(number, os.strerror(number))

    return fail


def test_a_new_file_has_the_usual_mode(tmp_path: Path):
    umask = os.umask(0o027)
    try:
        save(tmp_path / "out", NEW)
    finally:
        os.umask(umask)
    assert (tmp_path / "out").read_bytes() == NEW
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o640
    assert names(tmp_path) == ["out"]


def test_an_older_file_is_replaced_and_keeps_its_mode(older: Path):
    older.chmod(0o604)
    before = older.stat()
    os.utime(older, (0, 0))
    save(older, NEW)
    after = older.stat()
    assert older.read_bytes() == NEW
    assert after.st_ino != before.st_ino
    assert after.st_mtime > 1
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)


@pytest.mark.parametrize(
    ("error", "number"), [(OSError, errno.ENOSPC), (OSError, errno.EDQUOT), (KeyboardInterrupt, 0)]
)
@pytest.mark.parametrize("step", ["os.open", "os.fsync", "pathlib.Path.replace"])
def test_what_fails_leaves_the_older_file(error, number, step, older: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(step, failing(number, error))
    with pytest.raises(error):
        save(older, NEW)
    monkeypatch.undo()
    assert older.read_bytes() == OLD
    assert names(older.parent) == ["out"]


@pytest.mark.parametrize(
    ("step", "number"),
    [("os.open", errno.EACCES), ("os.fchown", errno.EPERM), ("pathlib.Path.replace", errno.EBUSY)],
)
def test_what_cannot_be_replaced_is_written_in_place(
    step: str, number: int, older: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(step, failing(number))
    before = older.stat()
    save(older, NEW)
    assert (older.read_bytes(), older.stat().st_ino) == (NEW, before.st_ino)
    assert names(older.parent) == ["out"]


def test_links_go_on_leading_there(older: Path):
    (older.parent / "far").symlink_to("near")
    (older.parent / "near").symlink_to("out")
    save(older.parent / "far", NEW)
    assert older.read_bytes() == NEW
    assert [(older.parent / name).is_symlink() for name in ("far", "near", "out")] == [True, True, False]
    (older.parent / "dangling").symlink_to("made")
    save(older.parent / "dangling", NEW)
    assert (older.parent / "made").read_bytes() == NEW
    assert (older.parent / "dangling").is_symlink()


def test_a_file_of_two_names_stays_one(older: Path):
    os.link(older, older.parent / "other")
    save(older, NEW)
    assert (older.parent / "other").read_bytes() == NEW


def test_a_file_that_a_shell_has_opened_stays_the_same(tmp_path: Path):
    code = "from pathlib import Path; from solver.saving import save; save(Path('/dev/stdout'), b'new')"
    with (tmp_path / "out").open("wb") as out:
        subprocess.run([sys.executable, "-c", code], stdout=out, check=True, cwd=REPOSITORY)
        assert (tmp_path / "out").stat().st_ino == os.fstat(out.fileno()).st_ino
    assert (tmp_path / "out").read_bytes() == NEW


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
def test_a_pipe_is_written_to(tmp_path: Path):
    os.mkfifo(tmp_path / "out")
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append((tmp_path / "out").read_bytes()))
    reader.start()
    save(tmp_path / "out", NEW)
    reader.join()
    assert found == [NEW]
    assert (tmp_path / "out").is_fifo()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
def test_a_full_device_says_so():
    with pytest.raises(OSError, match="No space left"):
        save(Path("/dev/full"), NEW)
