"""Which tensors are held while an Einsum runs, where, and how much space they take."""

from fractions import Fraction

import pytest

from model.formats.cascade.storage import running_order, waiting_tensors
from model.problem import Term
from model.workload import Einsum, RankIndex, TensorAccess


def access(tensor: str, **own: object) -> TensorAccess:
    return TensorAccess(tensor, (RankIndex("M", (Term("m"),)),), **own)


def einsum(text: str, size: int = 4, **own: object) -> Einsum:
    """Elementwise: ``Z = A B`` reads A and B; a name with `!` is persistent."""
    output, inputs = (part.split() for part in text.split("="))
    accesses = [access(name.strip("!"), persistent="!" in name) for name in inputs]
    accesses += [access(name.strip("!"), output=True, persistent="!" in name) for name in output]
    return Einsum(output[0], ("m",), (range(size),), tuple(accesses), **own)


def waiting(*texts: str, homes: dict[str, int] | None = None) -> list[str]:
    """Names of what waits while each Einsum runs; all tensors lie at level 1 but for `homes`."""
    einsums = [einsum(text.lstrip("*"), is_copy_operation=text.startswith("*")) for text in texts]
    known = [{name: (homes or {}).get(name, 1) for name in own.tensors} for own in einsums]
    return ["".join(sorted(wait.tensor for wait in own)) for own in waiting_tensors(einsums, known)]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["B = A", "C = B", "D = C"], ["", "", ""]),
        (["B = A", "C = B", "D = C", "E = D B"], ["", "", "B", ""]),
        (["B = A", "C = A", "D = A", "E = B C"], ["", "B", "BC", ""]),
        (["B = A", "C = B", "D = B", "E = C D"], ["", "", "C", ""]),
        (["B = A", "C = X", "D = Y", "E = C", "F = B"], ["", "B", "BC", "B", ""]),
        (["B = A", "C = X", "D = C"], ["", "", ""]),
        (["B! = A", "C = X", "D = C B!"], ["", "", ""]),
    ],
)
def test_what_waits(texts: list[str], expected: list[str]):
    assert waiting(*texts) == expected


def test_einsums_run_when_what_they_read_is_there():
    texts = ["D = C", "B = A", "C = X B", "E = B D"]
    assert running_order([einsum(text) for text in texts]) == (1, 2, 0, 3)
    assert waiting(*texts) == ["B", "", "", ""]


def test_what_a_copy_leaves_where_it_is_counts_once():
    copied = ["B = A", "*C = B", "D = X", "E = B C"]
    assert waiting(*copied) in (["", "", "B", ""], ["", "", "C", ""])
    assert waiting(*copied, homes={"C": 0}) == ["", "", "BC", ""]
    assert waiting("B = A", "*C = B", "D = C", "E = B D") == ["", "", "", ""]
    assert waiting("B = A", "*C = B", "D = C", "E = B D", homes={"C": 0}) == ["", "", "B", ""]


def test_a_tensor_takes_what_its_writer_stores():
    """Of one instance, with the scale of its room, at the level where it is written."""
    writer = Einsum(
        "B",
        ("m",),
        (range(6),),
        (access("A"), access("B", output=True, bits_per_value=4, backing_storage_size_scale=Fraction(3))),
        n_instances=5,
    )
    others = [einsum("C = X"), einsum("D = B C")]
    homes = [{"A": 0, "B": 2}, {"C": 1, "X": 0}, {"B": 1, "C": 1, "D": 1}]
    first, (wait,), last = waiting_tensors([writer, *others], homes)
    assert first == last == ()
    assert (wait.tensor, wait.level) == ("B", 2)
    assert wait.stored == (6 * 4 * 3, 4)
