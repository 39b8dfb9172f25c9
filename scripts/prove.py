#!/usr/bin/env python3
"""Checks certificates: no mapping in the stated mapspace is better than the one that is claimed.

The checker is the package `solver/certificate/checker`, which imports nothing else of Tilewright; this
program starts it from a checkout, without installing anything. With --suite it has the shipped layers mapped,
certified and checked.

Exit codes: 2 if a certificate cannot be read; otherwise 1 if one is INVALID, 6 if one cannot be checked, 0.
"""

import sys
from functools import partial
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent
sys.path[:0] = [str(SCRIPTS.parent), str(SCRIPTS)]  # `python -P` adds no path of its own

from solver.certificate.checker import prove  # noqa: E402


def main() -> int:
    """Check the certificates that the command line names, or the shipped layers."""
    parser = prove.parser(__doc__)
    parser.add_argument("--suite", action="store_true", help="map, certify and check the shipped layers")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases of the suite with this name")
    parser.add_argument(
        "--witness",
        action="append",
        default=[],
        choices=("cp-sat", "enumeration"),
        help="ask it about each case of the suite as well",
    )
    parser.add_argument(
        "--witness-time", type=prove.nonnegative, default=60, metavar="S", help="seconds per witness and case"
    )
    options = parser.parse_args()
    verdicts = set()
    if options.suite:
        from prove_suite import run_suite  # noqa: PLC0415 (rich is for tables only)

        check = partial(prove.verdict, seconds=options.time_limit)
        verdicts |= run_suite(options.only, check, options.witness, options.witness_time)
    elif not options.certificates:
        parser.error("give a certificate, or --suite")
    return prove.exit_code(verdicts | prove.printed(options.certificates, options.time_limit))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
