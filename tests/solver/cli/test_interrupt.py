"""Signals while a search runs."""

import ctypes
import os
import signal
import subprocess
import sys
import threading

import pytest

from solver.__main__ import follows_interrupt, main
from solver.cli.progress import SIGNALS, interruptible

HANGS_S = 600
"""How long a test waits for an event that must come."""

TWO_SIGNALS = f"""
import multiprocessing, os, signal, time
from solver.cli.progress import interruptible
with interruptible() as stop:
    lock = multiprocessing.get_context("spawn").Lock()
    os.kill(os.getpid(), signal.SIGINT)
    assert stop.wait({HANGS_S})
    print("first", flush=True)
    os.kill(os.getpid(), signal.{{second}})
    time.sleep({HANGS_S})
"""


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_sets_the_event(number):
    with interruptible() as stop:
        assert not stop.is_set()
        os.kill(os.getpid(), number)
        assert stop.wait(HANGS_S)


def test_handlers_come_back():
    before = [signal.getsignal(number) for number in SIGNALS]
    with interruptible():
        assert [signal.getsignal(number) for number in SIGNALS] != before
    assert [signal.getsignal(number) for number in SIGNALS] == before
    assert signal.set_wakeup_fd(-1) == -1


def test_the_event_is_set_while_the_main_thread_is_inside_c():
    """One long call without the interpreter's lock, as CP-SAT makes it; it ends after the event only."""
    c, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(256)
    c.pthread_mutex_init(mutex, None)
    locked, seen = threading.Event(), []

    def watch(stop):
        c.pthread_mutex_lock(mutex)
        locked.set()
        seen.append(stop.wait(HANGS_S))
        c.pthread_mutex_unlock(mutex)

    with interruptible() as stop:
        watcher = threading.Thread(target=watch, args=(stop,))
        watcher.start()
        locked.wait()
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        c.pthread_mutex_lock(mutex)
        watcher.join()
    assert seen == [True]


@pytest.mark.parametrize(("second", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_the_second_signal_ends_the_program(second, code):
    program = TWO_SIGNALS.format(second=second)
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.stdout == "first\n"
    assert run.stderr == ""  # nor a warning of the locks that are left
    assert run.returncode == code


BEFORE_THE_COMMAND_LINE = """
import os, signal, sys
from solver.__main__ import main

class Interrupting:
    def find_spec(self, name, *_):
        if name == "{module}":
            os.kill(os.getpid(), signal.SIGINT)

# A process that is started in the background inherits that interrupts are ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupting())
sys.exit(main(["check", "missing.yaml"]))
"""


@pytest.mark.parametrize("module", ["solver.cli.main", "argparse", "model.text.source"])
def test_an_interrupt_of_the_imports_leaves_no_traceback(module):
    program = BEFORE_THE_COMMAND_LINE.format(module=module)
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "")


def test_errors_that_an_interrupt_leads_to_are_interrupts(monkeypatch):
    def interrupted(_):
        try:
            raise KeyboardInterrupt
        finally:
            raise AttributeError("save_nargs")

    monkeypatch.setattr("solver.cli.main.parse_arguments", interrupted)
    assert main([]) == 130
    assert not follows_interrupt(AttributeError())
