"""One Spark session for all tests of the process, with retries, and stores to write into."""

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from graveler.core.records import BreakParameters
from graveler.spark import Lake, connect, tasks
from graveler.spark.places import Place, opened
from tests.aws.engines import free_port
from tests.spark.lakes import KEYS
from tests.spark.programs import ROOT, START
from tests.spark.session import local_session

FEW_ENTRIES = 100
# Each PySpark collects what it has: data sources of Python came with the fourth, and what Connect
# needs is in the lock of that alone.
HAS_SOURCES = find_spec("pyspark.sql.datasource") is not None
# Of draws, and of cases that differ in nothing that Spark or Arrow does, every fifth is on Spark 3,
# from the first one on.
SHARE = 1 if HAS_SOURCES else 5
# On Spark 3 each verb runs, and what another release of Spark or Arrow can change: values and types
# on their way through Spark, its hashes, zones, formats, errors of workers, workers that die.  What
# neither can change is tested on one of them, and so is what asks Spark nothing new.
_ON_ONE_VERSION = (
    "test_bench.py",  # the program that measures, which `make bench-spark` runs on both
    "test_entry_points.py",  # words of programs; `test_packages.py` imports all modules on both
    "gc/test_expired.py",  # which roots the service names; the job is that of `gc/test_collect.py`
    "core/test_join.py",  # what passes through the driver
    "cluster/test_checkpoints.py",  # which checkpoints of a job count
    "test_sizes.py",  # what holds at size; the same verbs write fewer rows on both versions
)
collect_ignore = (
    # S3A: no package has that of the Hadoop of PySpark 4.
    ["test_no_source.py", "test_s3a.py", "test_submit.py"]
    if HAS_SOURCES
    else [
        "test_datasource.py",
        "test_sink.py",
        "cluster/test_plans.py",
        *_ON_ONE_VERSION,
    ]
)
assert all(Path(__file__).parent.joinpath(name).exists() for name in collect_ignore)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Single tests of this kind are marked in their modules."""
    if HAS_SOURCES:
        return
    left_out = [item for item in items if item.get_closest_marker("one_version")]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


def pytest_configure(config: pytest.Config) -> None:
    """PySpark uses what Python has deprecated, and leaves its sockets to the collector."""
    config.addinivalue_line("filterwarnings", "ignore::DeprecationWarning:pyspark")
    config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")


@pytest.fixture(scope="session")
def spark(surroundings: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """`local[2,3]`: two tasks at a time, and a task that fails is tried three times."""
    session = local_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture(scope="session", autouse=True)
def many_entries() -> Iterator[None]:
    """A few hundred entries are as many tasks as many are for a user: tests have no millions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "ENTRIES_LEAST", FEW_ENTRIES)
        yield


@pytest.fixture(scope="session")
def bare(spark: SparkSession) -> SparkSession:
    """With as many tasks after a shuffle as in a session that nobody has configured: 200."""
    session = spark.newSession()
    session.conf.unset("spark.sql.shuffle.partitions")
    assert session.conf.get("spark.sql.shuffle.partitions") == "200"
    return session


@pytest.fixture
def small_batches(spark: SparkSession) -> Iterator[None]:
    """Tasks get several batches of a few rows each."""
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    spark.conf.set(name, "97")
    yield
    spark.conf.unset(name)


@pytest.fixture(scope="session")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A served embedded store, one for all tests: each makes a repository of its own."""
    with connect(spark, tmp_path_factory.mktemp("store") / "lake", KEYS) as made:
        yield made


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A namespace in a folder, with ranges that are small."""
    breaks = BreakParameters(max_size=40_000, raggedness=50, salt=b"tests \xff\x00")
    yield Place(f"local:{tmp_path / 'objects'}", "local://lake/repository", breaks)
    opened.cache_clear()


@pytest.fixture(scope="session", autouse=True)
def surroundings() -> int:
    """What the session and its workers find: the Java that `make setup` has put into this
    environment, unless another one is named; the Python of this process, with a path that is quick
    to search; credentials of the job's role, for an AWS that whoever wants one starts on the port
    that is returned."""
    port = free_port()
    os.environ.setdefault("JAVA_HOME", str(Path(sys.prefix) / "java"))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    found = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(map(str, [START, ROOT, *([found] if found else [])]))
    os.environ["AWS_REGION"] = os.environ["AWS_DEFAULT_REGION"] = "us-east-1"
    os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"] = "ROLE", "role-secret"
    return port
