"""Notes of networks: what differs in names and figures only is told once."""

from solver.report.notes import brief_notes

PLACE = "a.yaml:3:5: "


def test_notes_about_one_place_that_differ_in_names_and_figures():
    notes = [
        f"{PLACE}maximize_dims of `lane` comes to k1=32",
        f"{PLACE}maximize_dims of `lane` comes to k2=16, m2=4",
        f"{PLACE}the permutation leaves out `n` and `p1`; 3 of them",
        f"{PLACE}maximize_dims of `lane` comes to k3=1",
        f"{PLACE}the permutation leaves out `n`, `p2` and `q2`; 10 of them",
    ]
    assert list(brief_notes(notes)) == [
        f"{notes[0]} (and 2 more like it)",
        f"{notes[2]} (and 1 more like it)",
    ]


def test_other_notes_stay():
    notes = [
        f"{PLACE}nothing reads `depth` of `lane`",
        "b.yaml:3:5: nothing reads `depth` of `lane`",
        "`conv1`: padded",
        "`conv2`: padded",
    ]
    assert list(brief_notes(notes)) == notes
