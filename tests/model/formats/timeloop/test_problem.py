import pytest

from model.problem import Term
from tests.model.formats.timeloop.support import (
    PROBLEM,
    architecture,
    assert_fails,
    failure,
    load,
    marked,
    spec,
)


def changed(old: str, new: str) -> str:
    assert old in PROBLEM
    return spec(problem=PROBLEM.replace(old, new))


def test_the_shape_and_its_instance():
    problem = load(spec()).mapspace.problem
    assert problem.name == "conv1d"
    assert problem.bound == {"R": 3, "P": 16, "C": 4, "K": 8}
    assert problem.dataspace("Inputs").ranks == ((Term("C"),), (Term("R", 1), Term("P", 1)))
    assert [space.read_write for space in problem.dataspaces] == [False, False, True]


def test_coefficients_come_from_the_instance_the_default_or_a_number():
    text = changed("K: 8}", "K: 8, Stride: 2*2}").replace("[R, Dilation]", "[R, 3]")
    assert load(text).mapspace.problem.dataspace("Inputs").ranks[1] == (Term("R", 3), Term("P", 4))


def test_a_coefficient_of_0_leaves_its_dimension_out_as_in_timeloop():
    loaded = load(changed("K: 8}", "K: 8, Dilation: 0}"))
    assert loaded.mapspace.problem.dataspace("Inputs").ranks[1] == (Term("P", 1),)
    assert any("`Dilation` is 0: as in Timeloop, its dimension has no part" in str(n) for n in loaded.notes)
    assert_fails(changed("K: 8}", "K: 8, Dilation: 0, Stride: 0}"), "whose coefficient is not 0", None)


def test_underscores_and_other_spellings():
    text = changed("data-spaces", "data_spaces").replace("read-write", "read_write")
    assert load(text).mapspace.problem == load(spec()).mapspace.problem


GIVEN = "read-write: true, initial: given"
NO_ELISION = "globals: {version: 0.4, environment_variables: {TIMELOOP_ENABLE_FIRST_READ_ELISION: %s}}\n"


def given(text: str) -> list[str]:
    """Outputs whose first values are given."""
    return [space.name for space in load(text).mapspace.problem.dataspaces if space.given]


def test_first_values_of_outputs_may_be_given():
    assert given(spec()) == []
    assert given(changed("read-write: true", GIVEN)) == ["Outputs"]
    assert given(changed("read-write: true", "read-write: true, initial: nothing")) == []


@pytest.mark.parametrize("zero", ["0", '"0"'])
def test_first_values_are_given_where_timeloop_elides_no_first_reads(zero: str):
    text = spec(NO_ELISION % zero)
    assert given(text) == ["Outputs"]
    assert ("with `TIMELOOP_ENABLE_FIRST_READ_ELISION`, outputs have given first values") in str(
        load(text).notes[1]
    )
    assert given(spec(NO_ELISION % 1)) == []
    nothing = PROBLEM.replace("read-write: true", "read-write: true, initial: nothing")
    assert given(spec(NO_ELISION % zero, problem=nothing)) == []


@pytest.mark.parametrize(
    ("old", "new", "message", "mark"),
    [
        ("read-write: true", "read-write: true, initial: givn", "unknown first value `givn`", "givn"),
        ("read-write: true", "read-write: false, initial: given", "`Outputs` is only read", "initial"),
    ],
)
def test_wrong_first_values(old: str, new: str, message: str, mark: str):
    assert_fails(changed(old, new), message, mark)


def test_first_values_that_are_not_counted_are_refused():
    text = changed("read-write: true", GIVEN)
    assert_fails(text, "not counted by AccelForge's rule", "given", counting="accelforge")
    sparse = text.replace("K: 8}", "K: 8, densities: {Weights: 0.5}}")
    assert_fails(sparse, "not counted where data are sparse", "given", model_sparse=True)


def test_terms_over_one_dimension_are_added():
    text = changed("[R, Dilation], [P, Stride]", "[R], [P], [R, 2]")
    assert load(text).mapspace.problem.dataspace("Inputs").ranks[1] == (Term("R", 3), Term("P", 1))


def test_a_rank_may_be_a_dimension_without_brackets():
    text = changed("[[[R]], [[C]], [[K]]]", "[R, C, [[K]]]")
    assert load(text).mapspace.problem == load(spec()).mapspace.problem
    assert "unknown dimension `Z`" in failure(changed("[[[R]], [[C]], [[K]]]", "[R, C, Z]")).message


def test_no_densities_are_no_sparse_data():
    dense = ("{}", "{Weights: 1.0}", "1", "{Weights: {density: 1, distribution: hypergeometric}, Inputs: 1}")
    assert [load(changed("K: 8}", f"K: 8, densities: {given}}}")).notes for given in dense] == [()] * 4
    for given in ("{Weights: 0.5}", "{Weights: 1, Inputs: 0.9}", "true", "[]"):
        assert "sparse data" in failure(changed("K: 8}", f"K: 8, densities: {given}}}")).message
    given = "{Weights: {distribution: hypergeometric}}"
    assert "is missing the key `density`" in failure(changed("K: 8}", f"K: 8, densities: {given}}}")).message


def test_a_shape_may_have_an_empty_name():
    assert load(changed("name: conv1d", "name: ''")).mapspace.problem.name == "spec"


def test_descriptions_of_a_layer_are_noted():
    notes = [*map(str, load(changed("  shape:", "  dnn_name: net\n  notes: first layer\n  shape:")).notes)]
    assert [note.split("`")[1] for note in notes] == ["dnn_name", "notes"]


def test_dimension_names_of_several_letters():
    text = PROBLEM
    for short, long in (("R", "filter_row"), ("P", "out"), ("C", "C0"), ("K", "K_1")):
        text = text.replace(f"[{short}", f"[{long}").replace(f" {short}:", f" {long}:")
        text = text.replace(f"{{{short}:", f"{{{long}:").replace(f" {short},", f" {long},")
    text = text.replace(" K]", " K_1]")
    assert load(spec(problem=text)).mapspace.problem.dims == ("filter_row", "out", "C0", "K_1")


def test_a_shape_by_name_that_is_shipped():
    text = "problem:\n  shape: conv1d\n  instance: {R: 3, P: 16, C: 4, K: 8, N: 1}\n"
    problem = load(spec(problem=text)).mapspace.problem
    assert set(problem.dims) >= {"R", "P", "C", "K"}
    assert problem.computes == 3 * 16 * 4 * 8


def test_derived_instance_keys_are_noted():
    for keys, words in (
        (
            "H: 18, Wpad: 1",
            "keys `H` and `Wpad` are not part of the shape: they follow from the others and are",
        ),
        ("Wpad: 1", "key `Wpad` is not part of the shape: it follows from the others and is"),
    ):
        texts = [note.text for note in load(changed("K: 8}", f"K: 8, {keys}}}")).notes]
        assert f"instance {words} not used" in texts


def test_a_dimension_that_nothing_is_indexed_by_is_noted():
    text = changed("[R, P, C, K]", "[R, P, C, K, Z]").replace("K: 8}", "K: 8, Z: 5}")
    assert any("`Z`" in note.text for note in load(text).notes)


MERGED = """\
problem_base_ignore: &base
  version: 0.4
  instance: {R: 1, P: 1, C: 1, K: 1, Stride: 1}
"""


def test_a_key_of_another_case_means_the_default_that_was_merged_in():
    instance = "  instance: {R: 3, P: 16, C: 4, K: 8, STRIDE: 2}\n"
    text = MERGED + PROBLEM.replace("  instance: {R: 3, P: 16, C: 4, K: 8}\n", "  <<<: *base\n" + instance)
    loaded = load(spec(problem=text))
    assert loaded.mapspace.problem.dataspace("Inputs").ranks[1] == (Term("R", 1), Term("P", 2))
    assert any(str(note).startswith("spec.yaml:16:") and "STRIDE" in note.text for note in loaded.notes)


def test_a_second_spelling_of_a_merged_default_is_an_error():
    instance = "  instance: {R: 3, P: 16, C: 4, K: 8, STRIDE: 2, stride: 2}\n"
    text = MERGED + PROBLEM.replace("  instance: {R: 3, P: 16, C: 4, K: 8}\n", "  <<<: *base\n" + instance)
    assert marked(failure(spec(problem=text))) == "stride"


def test_a_key_of_another_case_without_a_merge_is_an_error():
    error = failure(changed("K: 8}", "K: 8, STRIDE: 2}"))
    assert (marked(error), error.hint) == ("STRIDE", "did you mean `Stride`?")
    error = failure(changed("K: 8}", "K: 8, Stride: 1, STRIDE: 2}"))
    assert marked(error) == "STRIDE"


def test_the_message_of_a_misspelt_coefficient():
    assert failure(changed("K: 8}", "K: 8, STRIDE: 2}")).render() == (
        "error: unknown key `STRIDE` in `instance`\n"
        "  --> spec.yaml:12:39\n"
        "   |\n"
        "12 |   instance: {R: 3, P: 16, C: 4, K: 8, STRIDE: 2}\n"
        "   |                                       ^^^^^^\n"
        "help: did you mean `Stride`?"
    )


def test_a_dimension_in_place_of_a_coefficient_is_shown_how_sums_are_written():
    error = failure(changed("[R, Dilation]", "[R, P]"))
    assert (error.message, marked(error)) == ("`P` is a dimension, not a coefficient", "P")
    assert error.hint == "a sum of two dimensions is written `[[R], [P]]`"


def test_bounds_beside_the_shape_are_the_instance_as_in_older_versions():
    text = changed("  instance: {R: 3, P: 16, C: 4, K: 8}", "  R: 3\n  P: 16\n  C: 4\n  K: 8")
    assert load(text).mapspace.problem == load(changed("  instance:", "  instance:")).mapspace.problem


def test_conditions_in_place_of_bounds_are_told_so():
    error = failure(changed("{R: 3, P: 16, C: 4, K: 8}", "0 <= R < 3 and 0 <= P < 16"))
    assert error.message == "`instance` has conditions, as in LoopTree"
    assert "`{DIMENSION: BOUND}`" in (error.hint or "")


def test_a_list_of_problems_belongs_to_networks():
    error = failure("problem:\n- {shape: cnn-layer}\n" + architecture())
    assert error.message == "`problem` must be a mapping, but is a list"
    assert "`network`" in (error.hint or "")


def test_a_network_of_methods_belongs_to_assign():
    error = failure("network: {layers: []}\n" + PROBLEM + architecture())
    assert error.message == "unknown top-level key `network`"
    assert "`assign`" in (error.hint or "")


@pytest.mark.parametrize("key", ["densities", "commonDensity"])
def test_densities_may_stand_beside_the_instance(key):
    text = changed("  instance:", f"  {key}: {{Weights: 0.5}}\n  instance:")
    assert failure(text).message == f"`{key}`: this command does not support sparse data"
    assert any(key in note.text for note in load(text, ignore_sparse=True).notes)
    assert load(text.replace("0.5", "1.0")).notes == ()


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [("densties", "densities"), ("densty", "density"), ("commonDensty", "commonDensity"), ("nmae", "name")],
)
def test_misspelt_keys_that_are_no_bounds(misspelt, meant):
    inside = failure(changed("K: 8}", f"K: 8, {misspelt}: 1}}"))
    beside = failure(changed("  instance:", f"  {misspelt}: {{}}\n  instance:"))
    assert [error.hint for error in (inside, beside)] == [f"did you mean `{meant}`?"] * 2


def test_densities_need_a_flag():
    text = changed("K: 8}", "K: 8, densities: {Weights: 0.5}}")
    assert "--ignore-sparse" in (failure(text).hint or "")
    assert any("densities" in note.text for note in load(text, ignore_sparse=True).notes)


@pytest.mark.parametrize(
    ("old", "new", "message", "mark"),
    [
        ("[R, P, C, K]", "[R, P, C, R, K]", "two dimensions are named `R`", "R"),
        ("[R, P, C, K]", "[R, P, C, K, X]", "lacks a bound for dimension `X`", None),
        ("K: 8}", "K: 0}", "must be at least 1", "0"),
        ("K: 8}", "K: -8}", "must be at least 1", "-8"),
        ("K: 8}", "K: 8.5}", "must be a whole number", "8.5"),
        ("K: 8}", "K: true}", "must be a whole number", "true"),
        ("K: 8}", "K: [8]}", "must be a single value, but is a list", "[8]"),
        ("K: 8}", "K: }", "must be a single value, but is empty", None),
        ("K: 8}", "K: 8, Kk: 2}", "unknown key `Kk`", "Kk"),
        ("[[[K]], [[P]]]", "[[[K]], [[Z]]]", "unknown dimension `Z`", "Z"),
        ("[R, Dilation]", "[R, Dilatation]", "unknown coefficient `Dilatation`", "Dilatation"),
        ("[R, Dilation]", "[R, Dilation, 2]", "a term is", "[R, Dilation, 2]"),
        ("[R, Dilation]", "[R, 0]", "must be at least 1", "0"),
        ("[R, Dilation]", "[R, -1]", "must be at least 1, but is -1", "-1"),
        ("name: Stride, default: 1", "name: Stride", "lacks coefficient `Stride`", None),
        ("name: Stride", "name: R", "the name of coefficient `R` is already used", "R"),
        ("name: Inputs", "name: Weights", "two dataspaces are named `Weights`", "Weights"),
        (", read-write: true", "", "no dataspace is `read_write: true`", None),
        ("read-write: true", "read-write: yes", "must be true or false", "yes"),
        ("read-write: true", 'read-write: "true"', "must be true or false, but is the text `true`", '"true"'),
        (
            "read-write: true",
            "read-write: true, read_write: true",
            "two names for the same key",
            "read-write",
        ),
        ("read-write: true", "readwrite: true", "unknown key `readwrite`", "readwrite"),
        ("projection: [[[K]], [[P]]]", "projection: K", "must be a list, but is text (`K`)", "K"),
        ("  shape:", "  version: 0.5\n  shape:", "version `0.5` is not supported", "0.5"),
        ("  shape:", "  shpe:", "unknown key `shpe`", "shpe"),
        ("dimensions: [R, P, C, K]", "dimensions: []", "must not be empty", "dimensions"),
        ("dimensions: [R, P, C, K]", "dimensions: [R, P, C, K, 1x]", "cannot name a dimension", "1x"),
    ],
)
def test_mistakes_are_marked(old, new, message, mark):
    assert_fails(changed(old, new), message, mark)


def test_a_name_that_begins_with_a_digit_is_told_so():
    error = failure(changed("dimensions: [R, P, C, K]", "dimensions: [R, P, C, K, 1e3]"))
    assert error.hint == "use letters, digits and `_`, not beginning with a digit"


def test_an_unknown_shape_names_the_shipped_ones():
    error = failure(spec(problem="problem:\n  shape: cnn-lyer\n  instance: {}\n"))
    assert (marked(error), error.hint) == ("cnn-lyer", "did you mean `cnn-layer`?")
    error = failure(spec(problem="problem:\n  shape: ../cnn\n  instance: {}\n"))
    assert "cannot name a problem shape" in error.message


@pytest.mark.parametrize(
    "file", ["cnn-layer.yaml", "../problem-shapes/cnn-layer.yaml", "cnn-layer.yaml.jinja2"]
)
def test_a_file_is_no_name_of_a_shape(file):
    error = failure(spec(problem=f"problem:\n  shape: {file}\n  instance: {{}}\n"))
    assert error.message == f"`{file}` is a file, not the name of a problem shape"
    assert (error.hint or "").startswith("write `shape: cnn-layer`:")


@pytest.mark.parametrize(
    ("word", "meant"), [("yes", "true"), ("On", "true"), ("NO", "false"), ("maybe", None)]
)
def test_words_of_yaml_1_1_are_translated(word, meant):
    error = failure(changed("read-write: true", f"read-write: {word}"))
    assert error.hint == (meant and f"write `{meant}`: in YAML 1.2 other words are text")


def test_a_problem_is_needed():
    error = failure("architecture: {version: 0.4, nodes: []}\n")
    assert error.message == "the spec is missing the key `problem`"
