from decimal import Decimal

import pytest

from model.energy import read_given
from model.text.arithmetic import float_of
from model.text.source import SpecError


def read(parse, kind, text, names=None):
    root = parse(text, "arch.yaml")
    return read_given(kind, root, root.get("attributes"), names or {})


@pytest.mark.parametrize(
    "text",
    [
        "energy: {read: 2.5, write: 0.30000000000000000001}\n",
        "attributes: {energy: {read: 2.5, write: 0.30000000000000000001}}\n",
        "actions: [{name: read, energy: 2.5}, {name: write, energy: 0.30000000000000000001}]\n",
        "energy: {read: 2.5}\nattributes: {energy: {write: 0.30000000000000000001}}\n",
    ],
)
def test_every_form_gives_the_same_exact_figures(parse, text):
    found = read(parse, "storage", text)
    assert found.energies["read"] == (Decimal("2.5"), "given at arch.yaml:1")
    assert found.energies["write"][0] == Decimal("0.30000000000000000001")


def test_short_forms_and_area(parse):
    storage = read(parse, "storage", "attributes: {vector-access-energy: 4, area: 100.25}\n")
    assert {action: figure[0] for action, figure in storage.energies.items()} == {"read": 4, "write": 4}
    assert storage.area == (Decimal("100.25"), "given at arch.yaml:1")
    assert read(parse, "compute", "energy: 0.5\n").energies["compute"][0] == Decimal("0.5")
    assert read(parse, "compute", "energy_per_op: 0.5\n").energies["compute"][0] == Decimal("0.5")
    assert read(parse, "compute", "name: mac\nclass: intmac\n").energies == {}


def test_expressions_are_evaluated_over_the_names(parse):
    found = read(parse, "storage", "energy: {read: width * 2, write: width / 8}\n", {"width": 4})
    assert found.energies["read"][0] == 8
    assert found.energies["write"][0] == Decimal("0.5")
    tiny = read(parse, "storage", "energy: {read: width * 1e-15, write: width * 0.1}\n", {"width": 3})
    assert [tiny.energies[name][0] for name in ("read", "write")] == [Decimal("3e-15"), Decimal("0.3")]


@pytest.mark.parametrize(
    ("text", "figure"),
    [
        ("long", "1.2345678901234567891"),
        ("long * 2", "2.4691357802469135782"),
        ("long / 1000 + 1", "1.0012345678901234567891"),
        ("abs(0) or long if long > 1 else 0", "1.2345678901234567891"),
        ("1.2345678901234567891 * 10", "12.3456789012345678910"),
        ("whole / 10", "1234567890123456.7"),
        ("long + 3 * 0.1 - 0.3", "1.2345678901234567891"),
        ("long / 3", "0.411522630041152"),
        ("sqrt(long)", "1.11111110611111"),
    ],
)
def test_figures_that_expressions_pass_on_keep_their_digits(parse, text, figure):
    names = {"long": float_of("1.2345678901234567891"), "whole": 12345678901234567}
    found = read(parse, "storage", f"energy: {{read: {text}}}\n", names)
    assert found.energies["read"][0] == Decimal(figure)


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("storage", "energy: 3\n", "`energy` of a storage must be a mapping"),
        ("storage", "energy: {raed: 3}\n", "unknown action `raed`"),
        ("storage", "energy: {compute: 3}\n", "unknown action `compute` of a storage component"),
        ("compute", "energy: {read: 3}\n", "unknown action `read` of a compute component"),
        ("compute", "vector_access_energy: 3\n", "is for storage components"),
        ("storage", "energy_per_op: 3\n", "is for compute components"),
        ("storage", "energy: {read: -3}\n", "must not be negative"),
        ("storage", "energy: {read: '3'}\n", "must be a number"),
        ("storage", "energy: {read: 9.9e-31}\n", "must be zero, or at least 1e-30"),
        ("storage", "energy: {read: 1e-20 * 1e-20}\n", "must be zero, or at least 1e-30"),
        ("storage", "energy: {read: 1.1e30}\n", "must be finite, at most 1e+30"),
        ("storage", "actions: {read: 3}\n", "`actions` must be a list"),
        ("storage", "actions: [{name: read, enrgy: 3}]\n", "unknown key `enrgy`"),
        ("storage", "energy: {read: 3}\nactions: [{name: read, energy: 3}]\n", "`read` is given twice"),
        ("storage", "area: 3\nattributes: {area: 3}\n", "`area` is given twice"),
    ],
)
def test_other_forms_are_refused(parse, kind, text, message):
    with pytest.raises(SpecError) as caught:
        read(parse, kind, text)
    assert message in caught.value.message
    assert caught.value.span is not None


def test_a_number_in_quotes_is_text(parse):
    with pytest.raises(SpecError, match="must be a number, but is the text `3`") as caught:
        read(parse, "storage", "actions: [{name: read, energy: '3'}]\n")
    assert caught.value.hint == "quoted values are text: remove the quotes"
