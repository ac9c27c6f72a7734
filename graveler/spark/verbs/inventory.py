"""An S3 Inventory as the rows of an import.

    <prefix>/<bucket>/<configuration>/<date>/manifest.json    one delivery: its files and format
    <prefix>/<bucket>/<configuration>/data/…                  files of all deliveries

    Parquet, ORC   bucket, key, size, last_modified_date, e_tag, perhaps is_latest, is_delete_marker
    CSV            the same without a head, in the order of the manifest's `fileSchema`; keys are
                   encoded as in a URL

Old files stay beside new ones, so a delivery is read by its manifest, never by its folder.  Of
versions only the latest counts, and delete markers do not.  For whoever uses the package.
"""

import json
from dataclasses import dataclass
from typing import Any, Final

from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from graveler.errors import Invalid

MANIFEST: Final = "manifest.json"
_REQUIRED: Final = ("bucket", "key", "size", "lastmodifieddate", "etag")
_ONLY: Final = {"islatest": "true", "isdeletemarker": "false"}
_DATA: Final = "/data/"
_FORMATS: Final = {"csv": "csv", "orc": "orc", "parquet": "parquet"}


@dataclass(frozen=True, slots=True)
class Delivery:
    """What a manifest says: the format of Spark, where the files are, and of CSV the columns."""

    format: str
    files: tuple[str, ...]
    file_schema: str = ""


def delivery(spark: SparkSession, manifest: str) -> Delivery:
    """The delivery whose `manifest.json` lies at a path that Spark can read.

    The files are looked for beside the manifest's folder, in `data/`, so a copy of all of it counts
    too.  `Invalid` for another path (a folder has the files of many deliveries), one that cannot be
    read, or one that is no manifest.
    """
    folder, slash, name = manifest.rpartition("/")
    if name != MANIFEST or not slash:
        raise Invalid(
            f"an inventory is read by the {MANIFEST} of one delivery; a folder has the files of "
            f"many, old ones too: source={manifest!r:.500}"
        )
    try:
        found = spark.read.text(manifest, wholetext=True).collect()
    except PySparkException as error:
        first = str(error).partition("\n")[0]
        raise Invalid(f"the manifest cannot be read: {first:.500} source={manifest}") from error
    try:
        return _parsed(json.loads(found[0]["value"]), folder.rpartition("/")[0])
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise Invalid(f"no manifest of an S3 Inventory: source={manifest!r:.500}") from error


def _parsed(said: Any, folder: str) -> Delivery:
    """`folder`: of the inventory's configuration."""
    files = []
    for each in said["files"]:
        before, data, rest = each["key"].rpartition(_DATA)
        if not before or not rest:
            raise ValueError(each["key"])
        files.append(folder + data + rest)
    kind = _FORMATS[said["fileFormat"].lower()]
    return Delivery(kind, tuple(files), said["fileSchema"] if kind == "csv" else "")


def delivered(spark: SparkSession, manifest: str, below: str = "") -> DataFrame:
    """The rows that `import_` takes, of the delivery with this manifest; `below` as of `inventory`.

    Errors: those of `delivery` and `inventory`; `Invalid` if there is no file, or one is missing.
    """
    found = delivery(spark, manifest)
    if not found.files:
        raise Invalid(f"the delivery has no files: source={manifest}")
    try:
        rows = spark.read.format(found.format).load(list(found.files))
    except PySparkException as error:
        first = str(error).partition("\n")[0]
        raise Invalid(f"the delivery cannot be read: {first:.500} source={manifest}") from error
    return inventory(rows, below, file_schema=found.file_schema)


def inventory(df: DataFrame, below: str = "", *, file_schema: str = "") -> DataFrame:
    """The rows that `import_` takes, of the files of one delivery that Spark has read.

    `below`: those keys alone that begin so, and paths without it.  `file_schema`: of CSV, what its
    manifest says ("Bucket, Key, Size, …").  Raises `Invalid` for columns that are missing.  What
    has no size or time comes out as null, which an import tells as a bad row.
    """
    said = file_schema.split(",") if file_schema else df.columns
    names = [name.strip().lower().replace("_", "") for name in said]
    missing = [name for name in _REQUIRED if name not in names]
    if missing or len(names) != len(df.columns):
        raise Invalid(
            "not an inventory with size, last modified date and ETag (of CSV, give its manifest's "
            f"fileSchema): missing={','.join(missing)} found={','.join(df.columns)}"
        )
    rows = df.toDF(*names)
    for name, value in _ONLY.items():
        if name in names:
            rows = rows.where(F.lower(F.col(name).cast("string")) == value)
    if file_schema:
        rows = rows.withColumn("key", F.expr("url_decode(key)"))
    rows = rows.where(F.col("key").startswith(below)) if below else rows
    return rows.selectExpr(
        f"substring(key, {len(below) + 1}) AS path",
        "concat('s3://', bucket, '/', key) AS address",
        "try_cast(size AS bigint) AS size",
        "cast(etag AS string) AS checksum",
        "try_cast(lastmodifieddate AS timestamp) AS mtime",
    )
