"""The session of the tests: quick to start, quick with a few rows, all of it on this machine."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark.programs import JAVA

# What Spark does for many rows takes half of the time of a query over a few: it compiles each query
# anew, and plans it again after each stage.  Tests at size run as users do (`as_shipped`), and so
# do a collection, Spark Connect and submitted jobs.
FOR_FEW_ROWS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
}
_SHIPPED = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.codegen.wholeStage": "true",
}


def local_session(folder: Path, master: str = "local[2,3]") -> SparkSession:
    """A session that leaves nothing outside of `folder`."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"{JAVA} -Xms1g -Xmn512m",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "97",
        # The place in the source of each expression, which only errors of SQL name.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        **FOR_FEW_ROWS,
    }
    builder = SparkSession.builder.master(master).appName("tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
    session.sparkContext.setLogLevel("OFF")
    return session


@contextmanager
def as_shipped(session: SparkSession) -> Iterator[None]:
    """Inside, the session plans and compiles as Spark does by itself."""
    for name, value in _SHIPPED.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in FOR_FEW_ROWS.items():
            session.conf.set(name, value)
