"""Starts the checker from a file, whether or not Tilewright is installed."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))  # `python -P` adds no path of its own

from solver.certificate.checker.prove import main

if __name__ == "__main__":
    sys.exit(main())
