"""Entry point of ``python -m solver``."""

import sys

from solver.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
