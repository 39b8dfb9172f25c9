"""Tags mark nodes of the architecture and nothing else."""

import pytest

from tests.model.formats.timeloop.support import (
    BUFFER,
    DRAM,
    MAC,
    architecture,
    assert_fails,
    failure,
    load,
    spec,
)


@pytest.mark.parametrize(
    ("nodes", "sections", "message", "mark"),
    [
        (
            (DRAM, BUFFER.replace("depth: 256", "depth: !Fast 256"), MAC),
            "",
            "unknown tag `!Fast`",
            "!Fast 256",
        ),
        ((DRAM, BUFFER.replace("depth: 256", "depth: !!python/name:os.system 256"), MAC), "", "python", None),
        ((DRAM, BUFFER.replace("256", "!Component 256"), MAC), "", "does not belong under `depth`", "depth"),
        ((DRAM, MAC), "mapper: !Component {optimization_metrics: [edp]}\n", "does not belong here", None),
        ((DRAM, MAC), "mapper: !Mapper {optimization_metrics: [edp]}\n", "unknown tag `!Mapper`", None),
        ((DRAM, MAC), "variables: {SIZE: !Big 3}\n", "unknown tag `!Big`", "!Big 3"),
    ],
)
def test_other_tags_are_errors(nodes, sections, message, mark):
    assert_fails(spec(sections, arch=architecture(*nodes)), message, mark)


def test_a_tag_that_is_almost_right_is_suggested():
    error = failure(spec(arch=architecture(DRAM, "  - !Componnet {name: x}\n", MAC)))
    assert error.hint == "did you mean `!Component`?"


def test_tags_of_nodes_and_of_yaml_itself_are_fine():
    nodes = architecture(DRAM, BUFFER.replace("depth: 256", "depth: !!int 256"), MAC)
    anchors = "ignore_me: &node\n  - !Component {name: x}\n"
    assert load(spec(anchors, arch=nodes.replace("  nodes:", "  nodes: !!seq"))).mapping is None


def test_elements_of_drafts_are_components():
    old = architecture(DRAM, BUFFER, MAC).replace("!Component", "!Element")
    assert load(spec(arch=old)).mapspace == load(spec(arch=architecture(DRAM, BUFFER, MAC))).mapspace
    assert_fails(spec("mapper: !Element {}\n"), "`!Element` does not belong here", None)


def test_tags_of_other_dialects_are_translated():
    arch = architecture(DRAM, "  - !ArrayContainer {name: part}\n", MAC)
    assert failure(spec(arch=arch)).hint == "write `!Container`, with `split: 0` for a mesh along Y"
    copied = architecture(DRAM, BUFFER.replace("!Component", "!Copy"), MAC)
    assert "`spatial: {meshX: ...}`" in (failure(spec(arch=copied)).hint or "")
