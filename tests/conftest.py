"""The tests of `graveler.spark` run in environments of their own (`make test-spark`), one for each
version of PySpark; where there is none, they are left out."""

import sys
from importlib.util import find_spec

collect_ignore = [] if find_spec("pyspark") else ["spark"]


def pytest_sessionfinish() -> None:
    """Save what `make coverage` has measured: a test process that is still saving ten seconds after
    its last test is killed."""
    coverage = sys.modules.get("coverage")
    current = coverage.Coverage.current() if coverage is not None else None
    if current is not None:
        current.save()
