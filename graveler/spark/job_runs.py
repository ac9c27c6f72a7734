"""What each job does after its arguments are parsed; each returns its result as JSON values.

For `job.py`.
"""

from argparse import Namespace
from dataclasses import replace
from typing import Any

from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql import DataFrame, SparkSession

from graveler.client import bulk
from graveler.errors import Invalid
from graveler.spark.cluster.credentials import credentials
from graveler.spark.gc.collect import Careful, collect
from graveler.spark.lake import Lake, connect, parse_target
from graveler.spark.verbs.commit import commit
from graveler.spark.verbs.inventory import delivered
from graveler.spark.verbs.land import JobTerms, import_
from graveler.spark.verbs.pack import pack


def run_import(options: Namespace, spark: SparkSession) -> dict[str, Any]:
    """Import the rows of the source.  Errors: those of `import_`; `Invalid` if Spark cannot read
    the source or cannot parse the expressions."""
    with _lake(options, spark) as lake:
        rows = _rows(options, spark)
        landed = import_(
            lake, rows, options.target, options.mode, on_bad=options.on_bad, terms=_terms(options)
        )
    report = landed.report
    bad = {"bad": dict(report.bad), "duplicates": report.duplicates}
    return {"commit": landed.commit, "count": landed.count, **bad}


def run_commit(options: Namespace, spark: SparkSession) -> dict[str, Any]:
    """Commit the staged rows of a branch."""
    with _lake(options, spark) as lake:
        committed = commit(lake, options.branch, _terms(options), table=options.table)
    return {"commit": committed.commit, "rows": committed.rows}


def run_pack(options: Namespace, spark: SparkSession) -> dict[str, Any]:
    """Pack a branch, or with --dry-run report the estimate.  Errors: those of `pack`; `Invalid` if
    no parameter is given."""
    names = ("min_size", "max_size", "raggedness")
    chosen = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    if not chosen:
        raise Invalid("nothing to change: give --min-size, --max-size or --raggedness")
    with _lake(options, spark) as lake:
        repository = parse_target(options.branch).repository
        breaks = replace(bulk.read_breaks(lake.session, repository), **chosen)
        terms = _terms(options)
        packed = pack(lake, options.branch, breaks, terms, dry_run=options.dry_run)
    layouts = {"before": packed.before._asdict(), "after": packed.after._asdict()}
    return {**packed._asdict(), **layouts}


def run_collect(options: Namespace, spark: SparkSession) -> dict[str, Any]:
    """Collect garbage, or without --delete report what a collection would condemn and delete."""
    with _lake(options, spark) as lake:
        careful = Careful(share_max=options.share_max)
        collected = collect(lake, options.repository, careful, dry_run=not options.delete)
        if options.report:
            collected.report.write.mode("overwrite").parquet(options.report)
    result = {"run": collected.run, "condemned": collected.condemned._asdict()}
    return {**result, "deleted": collected.deleted._asdict(), "dry_run": not options.delete}


def _lake(options: Namespace, spark: SparkSession) -> Lake:
    if not options.url and not options.store:
        raise Invalid("no server: give --url, or --store for the folder of an embedded store")
    keys = credentials(options.secret)
    if options.url:
        return connect(spark, options.url, keys, store=options.store)
    return connect(spark, options.store, keys)


def _rows(options: Namespace, spark: SparkSession) -> DataFrame:
    if options.inventory and options.column:
        raise Invalid("an inventory has known columns: leave out either --inventory or --column")
    if options.inventory and options.format:
        raise Invalid("an inventory has a known format: leave out either --inventory or --format")
    if options.below and not options.inventory:
        raise Invalid("--below needs --inventory: give --inventory too")
    if options.inventory:
        return delivered(spark, options.source, options.below)
    try:
        frame = spark.read.format(options.format or "parquet").load(options.source)
        if not options.column:
            return frame
        return frame.selectExpr(*(f"{value} AS `{name}`" for name, value in options.column))
    except PySparkException as error:
        first = str(error).partition("\n")[0]
        raise Invalid(
            f"the source cannot be read with these options: {first:.500} source={options.source}"
        ) from error


def _terms(options: Namespace) -> JobTerms:
    return JobTerms(options.message, dict(options.metadata), options.job_id)
