"""The pipe between a search and a process beside it."""

import multiprocessing
import threading

from solver.beside import PipeEnd

LONG_S = 30.0


def listeners() -> set[threading.Thread]:
    return set(threading.enumerate())


def test_a_line_that_is_closed_reads_nothing_more():
    """Its thread ends, and does not go on to read from a file that is opened next."""
    here, there = multiprocessing.Pipe()
    before = listeners()
    line = PipeEnd(here)
    (thread,) = listeners() - before
    line.close()
    thread.join(LONG_S)
    assert not thread.is_alive()
    assert not line.is_open
    assert here.closed
    line.say("stop")
    there.close()


def test_what_the_other_side_says_is_heard():
    here, there = multiprocessing.Pipe()
    before = listeners()
    line = PipeEnd(here)
    (thread,) = listeners() - before
    there.send(("bound", 7))
    there.send(("nothing", None))
    there.close()
    thread.join(LONG_S)
    assert line.bound == 7
    assert line.is_empty
    assert not line.is_open
