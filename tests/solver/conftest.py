"""What all tests of the solver share."""

import pytest


@pytest.fixture(autouse=True)
def _patient(patience: None) -> None:
    """No search ends by a default limit."""
