"""An S3 Inventory as the rows of an import.

    Parquet, ORC   bucket, key, size, last_modified_date, e_tag, perhaps is_latest, is_delete_marker
    CSV            the same without a head, in the order of the manifest's `fileSchema`; keys are
                   encoded as in a URL

Of versions only the latest counts, and delete markers do not.  For whoever uses the package.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from graveler.errors import Invalid

_REQUIRED: Final = ("bucket", "key", "size", "lastmodifieddate", "etag")
_ONLY: Final = {"islatest": "true", "isdeletemarker": "false"}


def inventory(df: DataFrame, below: str = "", *, file_schema: str = "") -> DataFrame:
    """The rows that `import_` takes, of an inventory that Spark has read.

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
