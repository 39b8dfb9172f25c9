"""Notes that reports add to those of their specs."""

from fractions import Fraction

from solver.report.document import Run, slow_unit_notes


def texts(*runs: Run) -> list[str]:
    return [note.text for note in slow_unit_notes(runs)]


def test_an_einsum_that_takes_most_cycles_on_one_unit_is_noted():
    array, softmax = Run("QK", "MAC", 30, 256, waits=False), Run("softmax", "Scalar", 90, 1, waits=False)
    assert texts(array, softmax) == [
        "`softmax` takes 75.00 % of all cycles: it uses one unit of `Scalar` at a time, "
        "other Einsums up to 256"
    ]
    assert texts(array, softmax._replace(time=Fraction(61, 2))) != []
    assert texts(array, softmax._replace(time=30)) == []


def test_what_waits_for_memories_or_has_company_is_not_noted():
    array, softmax = Run("QK", "MAC", 30, 256, waits=False), Run("softmax", "Scalar", 90, 1, waits=False)
    assert texts(array, softmax._replace(waits=True)) == []
    assert texts(array, softmax._replace(units=2)) == []
    assert texts(softmax) == texts() == []
