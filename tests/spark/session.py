"""The session of the tests.

It has only settings that this machine needs: addresses, memory, folders, how fast Java starts,
`local[2,3]`, because plain `local[2]` never retries a task, and two tasks after a shuffle in place
of 200, which tests of imports and commits would fill.  Collections have it as Spark ships it
(`bare`).  Everything else is as Spark
ships it, so a test meets what a user meets.  test_default_session.py runs every verb without any
setting.  A test about another setting sets it itself.
"""

import logging
from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark.programs import JAVA


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
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
    }
    builder = SparkSession.builder.master(master).appName("tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
    session.sparkContext.setLogLevel("OFF")
    return session
