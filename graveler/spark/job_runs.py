"""What each job does after its arguments are parsed; each returns its result as JSON values.

For `job.py`.
"""

from argparse import Namespace
from dataclasses import replace
from typing import Any

from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql import DataFrame, SparkSession

from graveler.client import break_parameters
from graveler.errors import Invalid
from graveler.spark.cluster.credentials import credentials
from graveler.spark.cluster.land import JobTerms, import_
from graveler.spark.gc.collect import Careful, collect
from graveler.spark.lake import Lake, connect, parse_target
from graveler.spark.verbs.commit import commit
from graveler.spark.verbs.inventory import delivered
from graveler.spark.verbs.pack import pack


def run_import(said: Namespace, spark: SparkSession) -> dict[str, Any]:
    """Import the rows of the source.  Errors: those of `import_`; `Invalid` if Spark cannot read
    the source or cannot parse the expressions."""
    with _lake(said, spark) as lake:
        rows = _rows(said, spark)
        landed = import_(lake, rows, said.target, said.mode, on_bad=said.on_bad, terms=_terms(said))
    report = landed.report
    bad = {"bad": dict(report.bad), "duplicates": report.duplicates}
    return {"commit": landed.commit, "count": landed.count, **bad}


def run_commit(said: Namespace, spark: SparkSession) -> dict[str, Any]:
    """Commit the staged rows of a branch."""
    with _lake(said, spark) as lake:
        made = commit(lake, said.branch, _terms(said), table=said.table)
    return {"commit": made.commit, "rows": made.rows}


def run_pack(said: Namespace, spark: SparkSession) -> dict[str, Any]:
    """Pack a branch, or with --dry-run report the estimate.  Errors: those of `pack`; `Invalid` if
    no parameter is given."""
    names = ("min_size", "max_size", "raggedness")
    chosen = {name: getattr(said, name) for name in names if getattr(said, name) is not None}
    if not chosen:
        raise Invalid("nothing to change: give --min-size, --max-size or --raggedness")
    with _lake(said, spark) as lake:
        repository = parse_target(said.branch).repository
        breaks = replace(break_parameters.read(lake.session, repository), **chosen)
        terms = _terms(said)
        packed = pack(lake, said.branch, breaks, terms, dry_run=said.dry_run)
    layouts = {"before": packed.before._asdict(), "after": packed.after._asdict()}
    return {**packed._asdict(), **layouts}


def run_collect(said: Namespace, spark: SparkSession) -> dict[str, Any]:
    """Collect garbage, or without --delete report what a collection would condemn and delete."""
    with _lake(said, spark) as lake:
        careful = Careful(share_max=said.share_max)
        found = collect(lake, said.repository, careful, dry_run=not said.delete)
        if said.report:
            found.report.write.mode("overwrite").parquet(said.report)
    told = {"run": found.run, "condemned": found.condemned._asdict()}
    return {**told, "deleted": found.deleted._asdict(), "dry_run": not said.delete}


def _lake(said: Namespace, spark: SparkSession) -> Lake:
    if not said.url and not said.store:
        raise Invalid("no server: give --url, or --store for the folder of an embedded store")
    keys = credentials(said.secret)
    if said.url:
        return connect(spark, said.url, keys, store=said.store)
    return connect(spark, said.store, keys)


def _rows(said: Namespace, spark: SparkSession) -> DataFrame:
    if said.inventory and said.column:
        raise Invalid("an inventory's columns are known: leave out either --inventory or --column")
    if said.inventory and said.format:
        raise Invalid("an inventory's format is known: leave out either --inventory or --format")
    if said.below and not said.inventory:
        raise Invalid("--below is of an S3 Inventory: give --inventory too")
    if said.inventory:
        return delivered(spark, said.source, said.below)
    try:
        found = spark.read.format(said.format or "parquet").load(said.source)
        if not said.column:
            return found
        return found.selectExpr(*(f"{value} AS `{name}`" for name, value in said.column))
    except PySparkException as error:
        first = str(error).partition("\n")[0]
        raise Invalid(f"the source cannot be read so: {first:.500} source={said.source}") from error


def _terms(said: Namespace) -> JobTerms:
    return JobTerms(said.message, dict(said.metadata), said.job_id)
