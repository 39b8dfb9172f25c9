"""The example designs in ``reference/designs``, as their authors wrote them."""

from functools import cache

from model.formats.timeloop import load_timeloop
from model.mapspace import Mapspace
from tests.conftest import SHARED

DESIGNS = SHARED / "reference" / "designs"
EXAMPLES = DESIGNS / "example_designs"


@cache
def design(name: str, layer: str) -> Mapspace:
    """Mapspace of a layer, such as ``resnet18/07.yaml``, on the design of this name."""
    files = [EXAMPLES / "top.yaml.jinja2", EXAMPLES / name / "ERT.yaml"]
    problem = str(DESIGNS / "layer_shapes" / layer)
    return load_timeloop(files, variables={"architecture": name, "problem": problem}).mapspace
