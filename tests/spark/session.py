"""The session of the tests: quick to start, all of it on this machine."""

import logging
from pathlib import Path

from pyspark.sql import SparkSession


def local_session(folder: Path, master: str = "local[2,3]") -> SparkSession:
    """A session that leaves nothing outside of `folder`."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xms1g -Xmn512m",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "97",
    }
    builder = SparkSession.builder.master(master).appName("tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
    session.sparkContext.setLogLevel("OFF")
    return session
