"""What the tests of verbs share."""

import pytest

from tests.engine.lake import Lake, new_lake


@pytest.fixture
def lake() -> Lake:
    return new_lake()
