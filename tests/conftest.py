"""The tests of `graveler.spark` run in environments of their own (`make test-spark`), one for each
version of PySpark; where there is none, they are left out.  Tests of one group share a process."""

import atexit
import gc
import signal
import sys
from collections.abc import Generator
from importlib.util import find_spec

import pytest

from tests.groups import pytest_collection_modifyitems as pytest_collection_modifyitems
from tests.groups import pytest_xdist_make_scheduler as pytest_xdist_make_scheduler

# A shell script starts its background jobs with SIGINT ignored, and Python and the processes of the
# tests inherit that: no test of Ctrl-C could pass.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

collect_ignore = [] if find_spec("pyspark") else ["spark"]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep what the collection of thousands of tests makes out of every later collection of
    garbage, which would look through all of it each time: that took a tenth of the tests' time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        atexit.register(gc.unfreeze)  # extension modules look for what they leak at the end


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Save what `make coverage` has measured: a test process that is still saving ten seconds after
    its last test is killed."""
    coverage = sys.modules.get("coverage")
    if coverage is not None and hasattr(session.config, "workerinput"):
        current = coverage.Coverage.current()
        if current is not None:
            current.save()
