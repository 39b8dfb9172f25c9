"""Notes of networks: what differs in names and figures only is told once."""

from model.note import Note
from model.source_ref import SourceRef
from solver.report.notes import brief_notes

PLACE = SourceRef("a.yaml", 3, 5)


def test_notes_on_one_place_that_differ_in_names_and_figures():
    comes, leaves = "maximize_dims of `{}` gives {}", "the permutation leaves out {}; {} of them"
    notes = [
        Note(comes, ("lane", "k1=32"), PLACE),
        Note(comes, ("lane", "k2=16, m2=4"), PLACE),
        Note(leaves, ("`n` and `p1`", 3), PLACE),
        Note(comes, ("lane", "k3=1"), PLACE),
        Note(leaves, ("`n`, `p2` and `q2`", 10), PLACE),
    ]
    assert list(brief_notes(notes)) == [
        "a.yaml:3:5: maximize_dims of `lane` gives k1=32 (and 2 more like it)",
        "a.yaml:3:5: the permutation leaves out `n` and `p1`; 3 of them (and 1 more like it)",
    ]


def test_other_notes_stay():
    nothing = "nothing reads `{}` of `lane`"
    notes = [
        Note(nothing, ("depth",), PLACE),
        Note(nothing, ("depth",), SourceRef("b.yaml", 3, 5)),
        Note("`{}`: padded", ("conv1",)),
        Note("`{}`: padded", ("conv2",)),
        Note("an empty set is {}"),
    ]
    assert list(brief_notes(notes)) == [str(note) for note in notes]
    assert [note.text for note in notes[2:]] == ["`conv1`: padded", "`conv2`: padded", "an empty set is {}"]
