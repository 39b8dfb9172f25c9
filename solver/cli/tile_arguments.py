"""The arguments of ``tile``, and the operator that they describe."""

from __future__ import annotations

import argparse
import difflib
import re
from typing import TYPE_CHECKING

from solver.cli.mapped import add_mapping
from solver.cli.options import Commands, add_command, add_json, add_reading, file_path, positive, shown

if TYPE_CHECKING:
    from model.tiling.operators import Operator, Padding

REQUIRED = {
    "convolution": ("kernel", "ofmaps"),
    "inner_product": ("ofmaps",),
    "pooling": ("kernel",),
    "batch_norm": (),
    "eltwise": (),
    "unary": (),
    "softmax": (),
}
"""Operators, and the options that describe them besides ``--input``."""

OPTIONAL = {"convolution": ("stride", "padding"), "pooling": ("stride", "padding")}
TAKEN = {name: (*options, *OPTIONAL.get(name, ())) for name, options in REQUIRED.items()}
OTHER_NAMES = {
    "matmul": "inner_product",
    "gemm": "inner_product",
    "fc": "inner_product",
    "dense": "inner_product",
    "linear": "inner_product",
    "maxpool": "pooling",
    "avgpool": "pooling",
    "averagepool": "pooling",
    "bn": "batch_norm",
    "add": "eltwise",
    "mul": "eltwise",
    "relu": "unary",
    "tanh": "unary",
    "sigmoid": "unary",
}
"""What frameworks call operators, in lower case and without dashes."""

READING = {
    "--set": "variables",
    "--ignore-sparse": "ignore_sparse",
    "--timeloop-padding": "timeloop_padding",
    "--allow-include": "include_roots",
    "--limit": "limits",
}
SHAPES = ("kernel", "ofmaps", "stride", "padding")


def add_tile(commands: Commands) -> argparse.ArgumentParser:
    """Add the command ``tile``."""
    parser = add_command(commands, "tile", "tile one operator for scratchpads, as SMAUG does")
    parser.description = (
        "Tile one operator for scratchpads, as SMAUG does: strategy and tile shape per tensor."
    )
    _add_operator(parser)
    parser.add_argument(
        "--backend",
        default="smv",
        metavar="NAME|FILE",
        help="a shipped backend or a YAML file (default: %(default)s)",
    )
    parser.add_argument(
        "--onto",
        dest="specs",
        nargs="+",
        type=file_path,
        metavar="SPEC",
        help="instead of an operator: YAML specs with a problem, which is tiled for the scratchpads of their "
        "architecture (of the backend only the PEs count) and mapped",
    )
    add_mapping(parser, "with --onto: ")
    add_json(parser)
    add_reading(parser)
    parser.set_defaults(refuse=parser.error)
    return parser


def _add_operator(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--operator", type=operator_name, metavar="OP", help=f"what is tiled: {', '.join(REQUIRED)}"
    )
    parser.add_argument("--input", type=sizes, metavar="SHAPE", help="shape of the inputs: N,H,W,C or N,C")
    parser.add_argument(
        "--kernel",
        "--pool",
        type=one_or_two,
        metavar="R,S",
        help="rows and columns of the filter (convolution) or of the pool (pooling); R alone is R,R",
    )
    parser.add_argument(
        "--ofmaps",
        "--outputs",
        type=positive,
        metavar="K",
        help="output features (convolution, inner_product)",
    )
    parser.add_argument(
        "--stride",
        type=one_or_two,
        metavar="R,S",
        help="stride along rows and columns (default: 1 for convolution, the pool's size for pooling)",
    )
    parser.add_argument(
        "--padding",
        choices=("same", "valid"),
        help="zeros around the inputs of a convolution: kernel - 1 in total, or none (default: valid)",
    )


def check_tile_arguments(arguments: argparse.Namespace) -> None:
    """Check whether options are missing, or have no meaning beside the others.

    Raises
    ------
    SystemExit
        With 2, and a message on stderr.
    """
    name = arguments.operator
    if arguments.specs is not None:
        given = [
            option for option in (*SHAPES, "operator", "input") if getattr(arguments, option) is not None
        ]
        if given:
            arguments.refuse(f"--{given[0]} has no meaning with --onto")
        return
    if name is None or arguments.input is None:
        arguments.refuse("either --operator and --input are needed, or --onto")
    for option in ("mapping", "mapped-spec"):
        if getattr(arguments, option.replace("-", "_")) is not None:
            arguments.refuse(f"--{option} needs --onto: an operator alone has no architecture to map onto")
    for option, target in READING.items():
        if getattr(arguments, target):
            arguments.refuse(f"{option} needs --onto: an operator alone reads no specs")
    for option in REQUIRED[name]:
        if getattr(arguments, option) is None:
            arguments.refuse(f"{name} needs --{option}")
    for option in SHAPES:
        if getattr(arguments, option) is not None and option not in TAKEN[name]:
            arguments.refuse(f"--{option} has no meaning for {name}")
    if name == "pooling" and arguments.padding == "same":
        arguments.refuse("pooling has no padding: its windows lie within the inputs")


def described_operator(arguments: argparse.Namespace) -> Operator:
    """Return the operator that the arguments describe.

    Raises
    ------
    SystemExit
        With 2, if the shapes do not fit together.
    """
    from model.tiling.operators import OperatorError

    try:
        return _operator(arguments)
    except OperatorError as error:
        arguments.refuse(str(error))
        raise AssertionError("the parser's error ends the program") from error


def operator_name(text: str) -> str:
    """Read the name of an operator.

    Raises
    ------
    argparse.ArgumentTypeError
        There is none of that name.
    """
    if text in REQUIRED:
        return text
    folded = re.sub(r"[123]d$", "", re.sub(r"[-_ ]", "", text.lower()))
    plain = {name.replace("_", ""): name for name in REQUIRED}
    longer = [name for word, name in plain.items() if folded and word.startswith(folded)]
    close = longer or [plain[word] for word in difflib.get_close_matches(folded, plain, n=1, cutoff=0.8)]
    meant = OTHER_NAMES.get(folded) or "".join(close[:1])
    hint = f"did you mean {meant!r}?" if meant else f"known are {', '.join(REQUIRED)}"
    raise argparse.ArgumentTypeError(f"{shown(text)} is not an operator; {hint}")


def sizes(text: str) -> tuple[int, ...]:
    """Read positive integers with commas between.

    Raises
    ------
    argparse.ArgumentTypeError
        One of them is no positive integer.
    """
    if re.search(r"\dx\d", text):
        raise argparse.ArgumentTypeError(
            f"{shown(text)} has `x` between its numbers, where commas are expected"
        )
    return tuple(positive(part.strip()) for part in text.split(","))


def one_or_two(text: str) -> tuple[int, int]:
    """Read one positive integer, which then counts for both directions, or two.

    Raises
    ------
    argparse.ArgumentTypeError
        There are more, or it is none.
    """
    numbers = sizes(text)
    if len(numbers) > 2:
        raise argparse.ArgumentTypeError(f"{text!r} is not one number or two")
    return numbers[0], numbers[-1]


def _operator(arguments: argparse.Namespace) -> Operator:
    from model.tiling import operators

    name: str = arguments.operator
    shape: tuple[int, ...] = arguments.input
    if name == "convolution":
        padding: Padding = arguments.padding or "valid"
        stride = arguments.stride or (1, 1)
        return operators.Convolution(shape, arguments.kernel, arguments.ofmaps, stride, padding)
    if name == "inner_product":
        return operators.InnerProduct(shape, arguments.ofmaps)
    if name == "pooling":
        return operators.Pooling(shape, arguments.kernel, arguments.stride or arguments.kernel)
    if name == "batch_norm":
        return operators.BatchNorm(shape)
    if name == "eltwise":
        return operators.Eltwise(shape)
    return operators.Unary(shape) if name == "unary" else operators.Softmax(shape)
