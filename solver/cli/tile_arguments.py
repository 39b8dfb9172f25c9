"""The arguments of ``tile``, and the operator that they describe."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NoReturn

from solver.cli.options import EXIT_CODES, Commands, add_json, positive

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


def add_tile(commands: Commands) -> argparse.ArgumentParser:
    """Add the command ``tile``."""
    parser = commands.add_parser(
        "tile",
        help="tile one operator for scratchpads, as SMAUG does",
        description="Tile one operator for scratchpads, as SMAUG does: strategy and tile shape per tensor.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--operator", required=True, choices=tuple(REQUIRED), metavar="OP", help=", ".join(REQUIRED)
    )
    parser.add_argument(
        "--input", required=True, type=sizes, metavar="SHAPE", help="shape of the inputs: N,H,W,C or N,C"
    )
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
    parser.add_argument(
        "--backend",
        default="smv",
        metavar="NAME|FILE",
        help="a shipped backend or a YAML file (default: %(default)s)",
    )
    add_json(parser)
    parser.set_defaults(refuse=parser.error)
    return parser


def described_operator(arguments: argparse.Namespace) -> Operator:
    """Return the operator that the arguments describe.

    Raises
    ------
    SystemExit
        With 2, if an option is missing or has no meaning for the operator, or the shapes do not fit.
    """
    from model.tiling.operators import OperatorError  # noqa: PLC0415 (--help answers without it)

    _check_options(arguments)
    try:
        return _operator(arguments)
    except OperatorError as error:
        _refuse(arguments, str(error))


def sizes(text: str) -> tuple[int, ...]:
    """Read positive integers with commas between."""
    return tuple(positive(part.strip()) for part in text.split(","))


def one_or_two(text: str) -> tuple[int, int]:
    """Read one positive integer, which then counts for both directions, or two."""
    numbers = sizes(text)
    if len(numbers) > 2:
        raise argparse.ArgumentTypeError(f"{text!r} is not one number or two")
    return numbers[0], numbers[-1]


def _operator(arguments: argparse.Namespace) -> Operator:
    from model.tiling import operators  # noqa: PLC0415 (--help answers without it)

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


def _check_options(arguments: argparse.Namespace) -> None:
    name = arguments.operator
    taken = (*REQUIRED[name], *OPTIONAL.get(name, ()))
    for option in REQUIRED[name]:
        if getattr(arguments, option) is None:
            _refuse(arguments, f"{name} needs --{option}")
    for option in ("kernel", "ofmaps", "stride", "padding"):
        if getattr(arguments, option) is not None and option not in taken:
            _refuse(arguments, f"--{option} has no meaning for {name}")
    if name == "pooling" and arguments.padding == "same":
        _refuse(arguments, "pooling has no padding: its windows lie within the inputs")


def _refuse(arguments: argparse.Namespace, message: str) -> NoReturn:
    arguments.refuse(message)
    raise AssertionError("the parser's error ends the program")
