"""Progress is told regularly, whatever the search is busy with."""

import threading
from itertools import pairwise

import pytest

from solver import heartbeat
from solver.heartbeat import regular


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(heartbeat, "LONGEST_SILENCE_S", 0.001)


@pytest.mark.usefixtures("impatient")
def test_silence_is_broken_by_what_is_known():
    told, third = [], threading.Event()

    def hear(progress):
        told.append(progress)
        if len(told) >= 4:
            third.set()

    with regular(hear, ("start", 0.0), lambda last, seconds: (last[0], seconds)) as report:
        report(("searched", 0.0))
        assert third.wait(60)
    assert told.count(("searched", 0.0)) == 1
    repeated = [seconds for name, seconds in told if name == "searched"]
    assert all(first <= second for first, second in pairwise(repeated))


@pytest.mark.usefixtures("impatient")
def test_the_first_words_come_before_the_search_reports():
    heard = threading.Event()
    with regular(lambda progress: heard.set(), "first", lambda last, _: last):
        assert heard.wait(60)


@pytest.mark.usefixtures("impatient")
def test_nothing_is_told_before_anything_is_known():
    told = []
    with regular(told.append, None, lambda last, _: last) as report:
        threading.Event().wait(0.01)
        assert told == []
        report("known")
    assert told[0] == "known"


@pytest.mark.usefixtures("impatient")
def test_failures_of_the_callback_end_the_search():
    failed = threading.Event()

    def hear(_):
        failed.set()
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"), regular(hear, "first", lambda last, _: last) as report:
        assert failed.wait(60)
        while True:
            report("on")


def test_nobody_listens():
    with regular(None, "first", lambda last, _: last) as report:
        assert report is None


def test_users_hear_of_a_search_every_second():
    assert heartbeat.LONGEST_SILENCE_S < 1
