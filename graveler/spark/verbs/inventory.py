"""An S3 Inventory as the rows of an import.

    <prefix>/<bucket>/<configuration>/<date>/manifest.json    one delivery: its files and format
    <prefix>/<bucket>/<configuration>/data/…                  files of all deliveries

    Parquet, ORC   bucket, key, size, last_modified_date, e_tag, perhaps is_latest, is_delete_marker
    CSV            the same without a head, in the order of the manifest's `fileSchema`; keys are
                   URL-encoded

The folder `data/` keeps the files of old deliveries beside new ones.  So a delivery is read by its
manifest, never by its folder.  Only the latest version of an object counts.  Delete markers do not
count.  For users of the package.
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
    """The content of a manifest: the Spark name of the format, the addresses of the files, and for
    CSV the columns."""

    format: str
    files: tuple[str, ...]
    file_schema: str = ""


def delivery(spark: SparkSession, manifest: str) -> Delivery:
    """The delivery whose `manifest.json` lies at a path that Spark can read.

    The files are looked for in `data/` beside the manifest's folder, so a copy of the whole
    structure works too.  Raises `Invalid` if the path is not a `manifest.json` (a folder has the
    files of many deliveries), cannot be read, or holds no manifest.
    """
    folder, slash, name = manifest.rpartition("/")
    if name != MANIFEST or not slash:
        raise Invalid(
            f"name the {MANIFEST} of one delivery of the inventory; a folder has the files of "
            f"many, old ones too: source={manifest!r:.500}"
        )
    try:
        lines = spark.read.text(manifest, wholetext=True).collect()
    except PySparkException as error:
        first = str(error).partition("\n")[0]
        raise Invalid(f"the manifest cannot be read: {first:.500} source={manifest}") from error
    try:
        return _parsed(json.loads(lines[0]["value"]), folder.rpartition("/")[0])
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise Invalid(f"not a manifest of an S3 Inventory: source={manifest!r:.500}") from error


def _parsed(manifest: Any, folder: str) -> Delivery:
    """`folder`: the folder of the inventory's configuration."""
    files = []
    for file in manifest["files"]:
        before, data, rest = file["key"].rpartition(_DATA)
        if not before or not rest:
            raise ValueError(file["key"])
        files.append(folder + data + rest)
    kind = _FORMATS[manifest["fileFormat"].lower()]
    return Delivery(kind, tuple(files), manifest["fileSchema"] if kind == "csv" else "")


def delivered(spark: SparkSession, manifest: str, below: str = "") -> DataFrame:
    """The rows for `import_` of the delivery with this manifest; `below` as in `inventory`.

    Errors: those of `delivery` and `inventory`; `Invalid` if the delivery has no file, one is
    missing, or no key begins with `below`.
    """
    manifest_files = delivery(spark, manifest)
    if not manifest_files.files:
        raise Invalid(f"the delivery has no files: source={manifest}")
    try:
        rows = spark.read.format(manifest_files.format).load(list(manifest_files.files))
    except PySparkException as error:
        first = str(error).partition("\n")[0]
        raise Invalid(f"the delivery cannot be read: {first:.500} source={manifest}") from error
    below_rows = inventory(rows, below, file_schema=manifest_files.file_schema)
    if below and below_rows.isEmpty():
        raise Invalid(f"no key of the inventory begins with below={below!r}: source={manifest}")
    return below_rows


def inventory(df: DataFrame, below: str = "", *, file_schema: str = "") -> DataFrame:
    """The rows for `import_` from the files of one delivery, which Spark has read as `df`.

    `below`: only keys that begin with it; the paths do not contain it.  `file_schema`: for CSV, the
    `fileSchema` of the manifest ("Bucket, Key, Size, …").  Raises `Invalid` if columns are missing.
    A row without a size or time gets null there, and `import_` reports it as a bad row.
    """
    columns = file_schema.split(",") if file_schema else df.columns
    names = [name.strip().lower().replace("_", "") for name in columns]
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
