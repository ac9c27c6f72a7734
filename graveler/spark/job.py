"""The entry point of jobs: `spark-submit`, EMR Serverless and Glue call it with arguments.

The arguments are checked before Spark starts.  None is a secret: the credentials come from a named
secret of Secrets Manager, or from the environment of the driver.  The job prints its result as one
JSON object.  Exit codes: 0 done, 1 failed (the error is on standard error), 2 wrong arguments.
"""

import argparse
import json
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql import DataFrame, SparkSession

from graveler.assembly.aws import secret_text
from graveler.core.aws import AwsSession, AwsSettings
from graveler.core.errors import GravelerError, Invalid
from graveler.core.settings import KEY_VARIABLE, SECRET_VARIABLE, endpoint_url, environment
from graveler.lake import bulk
from graveler.spark.commits import commit
from graveler.spark.connection import Lake, connect
from graveler.spark.gc.collect import CollectionLimits, collect
from graveler.spark.imports import delivered, import_
from graveler.spark.lake import Credentials, parse_target
from graveler.spark.packs import pack

_FORMATS: Final = ("parquet", "orc", "csv", "json")
Jobs = argparse._SubParsersAction  # the type has no public name
_FIELDS: Final = ("access_key_id", "secret_access_key")


def main(words: Sequence[str] | None = None) -> int:
    """Run one job in its own Spark session; return the exit code."""
    options = parser().parse_args(words)
    spark = SparkSession.builder.appName(f"graveler {options.job}").getOrCreate()
    try:
        return run(options, spark)
    finally:
        spark.stop()


def run(options: argparse.Namespace, spark: SparkSession) -> int:
    """Run one job in the given session and print its result; return the exit code."""
    job: Callable[[argparse.Namespace, SparkSession], dict[str, Any]] = options.run
    try:
        done = job(options, spark)
    except GravelerError as error:
        print(f"graveler {options.job}: {error}", file=sys.stderr)
        return 1
    print(json.dumps({"job": options.job, **done}), flush=True)
    return 0


def parser() -> argparse.ArgumentParser:
    """The parser for all jobs and their arguments."""
    root = argparse.ArgumentParser(
        prog="graveler.spark.job", description="Bulk work on Spark.", allow_abbrev=False
    )
    jobs = root.add_subparsers(dest="job", required=True, metavar="JOB")
    _add_import(jobs)
    _add_commit(jobs)
    _add_pack(jobs)
    _add_gc(jobs)
    return root


def _add_import(jobs: "Jobs[argparse.ArgumentParser]") -> None:
    command = _added(jobs, "import", "import rows that name objects, as one commit", run_import)
    _add_target(
        command, "--target", "REPOSITORY/BRANCH/PREFIX", "the place that the rows are imported to"
    )
    command.add_argument(
        "--source", required=True, metavar="PATH", help="the path from which Spark reads the rows"
    )
    command.add_argument(
        "--format", choices=_FORMATS, default="", help="the format of the source (default: parquet)"
    )
    command.add_argument(
        "--column",
        action="append",
        default=[],
        type=_pair,
        metavar="NAME=EXPRESSION",
        help="a column of the import, as SQL over the columns of the source; repeatable",
    )
    command.add_argument(
        "--inventory",
        action="store_true",
        help="the source is the manifest.json of an S3 Inventory delivery",
    )
    command.add_argument(
        "--below",
        default="",
        metavar="PREFIX",
        help="only keys of the inventory that begin with PREFIX",
    )
    command.add_argument("--mode", choices=("replace", "merge"), default="replace")
    command.add_argument("--on-bad", choices=("fail", "skip"), default="fail")
    _add_terms(command)


def _add_commit(jobs: "Jobs[argparse.ArgumentParser]") -> None:
    command = _added(jobs, "commit", "commit a very large number of uncommitted rows", run_commit)
    _add_target(command, "--branch", "REPOSITORY/BRANCH", "the branch with the uncommitted rows")
    command.add_argument(
        "--table", default="", help="the DynamoDB table; executors then read it directly"
    )
    _add_terms(command)


def _add_pack(jobs: "Jobs[argparse.ArgumentParser]") -> None:
    command = _added(
        jobs, "pack", "rewrite the head of a branch in fewer ranges, if that is worth it", run_pack
    )
    _add_target(command, "--branch", "REPOSITORY/BRANCH", "the branch to pack")
    for name, text in (
        ("--min-size", "the least number of bytes of keys and values in a range"),
        ("--max-size", "the number of bytes after which a range always ends"),
        ("--raggedness", "between these sizes, one key in N may end a range"),
    ):
        command.add_argument(
            name, type=int, metavar="N", help=f"{text} (default: the present value)"
        )
    command.add_argument(
        "--dry-run", action="store_true", help="only print how many ranges the result would have"
    )
    _add_terms(command)


def _add_gc(jobs: "Jobs[argparse.ArgumentParser]") -> None:
    command = _added(jobs, "gc", "find garbage, and delete it one run later", run_collect)
    command.add_argument(
        "--repository",
        action="append",
        required=True,
        metavar="NAME",
        help="a repository (repeatable)",
    )
    command.add_argument(
        "--delete",
        action="store_true",
        help="condemn and delete (default: only list what it would do)",
    )
    command.add_argument(
        "--share-max",
        type=_share,
        default=0.5,
        metavar="SHARE",
        help="the greatest share of a repository's files that a run may condemn (default: 0.5)",
    )
    command.add_argument(
        "--report", default="", metavar="PATH", help="the path that the report is written to"
    )


def _added(
    jobs: "Jobs[argparse.ArgumentParser]",
    name: str,
    text: str,
    job: Callable[[argparse.Namespace, SparkSession], dict[str, Any]],
) -> argparse.ArgumentParser:
    command = jobs.add_parser(name, help=text, description=text, allow_abbrev=False)
    command.add_argument("--url", default="", help="the URL of the server")
    command.add_argument(
        "--store",
        default="",
        metavar="DIR",
        help="the folder of an embedded store; without --url, the job serves it while it runs",
    )
    command.add_argument(
        "--secret",
        default="",
        metavar="NAME",
        help="a secret in Secrets Manager: JSON with access_key_id and secret_access_key (default: "
        "the variables LAKECTL_CREDENTIALS_ACCESS_KEY_ID and _SECRET_ACCESS_KEY)",
    )
    command.set_defaults(run=job)
    return command


def _add_terms(command: argparse.ArgumentParser) -> None:
    command.add_argument("--message", default="", help="the message of the commit")
    command.add_argument(
        "--metadata",
        action="append",
        default=[],
        type=_pair,
        metavar="NAME=VALUE",
        help="metadata of the commit; repeatable",
    )
    command.add_argument(
        "--job-id",
        default="",
        metavar="ID",
        help="the id of the job; a job with the same id continues",
    )


def _add_target(command: argparse.ArgumentParser, name: str, form: str, text: str) -> None:
    command.add_argument(name, required=True, type=_target, metavar=form, help=text)


def _target(text: str) -> str:
    try:
        parse_target(text)
    except Invalid as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"it must be NAME=VALUE: {text!r:.200}")
    return name, value


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0.0 < share <= 1.0:
        raise argparse.ArgumentTypeError(f"it must be above 0 and at most 1: {text!r:.200}")
    return share


def run_import(options: Namespace, spark: SparkSession) -> dict[str, Any]:
    """Import the rows of the source.  Errors: those of `import_`; `Invalid` if Spark cannot read
    the source or cannot parse the expressions."""
    with _lake(options, spark) as lake:
        rows = _rows(options, spark)
        landed = import_(
            lake, rows, options.target, options.mode, on_bad=options.on_bad, **_terms(options)
        )
    report = landed.report
    bad = {"bad": dict(report.bad), "duplicates": report.duplicates}
    return {"commit": landed.commit, "count": landed.rows, **bad}


def run_commit(options: Namespace, spark: SparkSession) -> dict[str, Any]:
    """Commit the staged rows of a branch."""
    with _lake(options, spark) as lake:
        committed = commit(lake, options.branch, table=options.table, **_terms(options))
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
        packed = pack(lake, options.branch, breaks, dry_run=options.dry_run, **_terms(options))
    layouts = {"before": packed.before._asdict(), "after": packed.after._asdict()}
    return {**packed._asdict(), **layouts}


def run_collect(options: Namespace, spark: SparkSession) -> dict[str, Any]:
    """Collect garbage, or without --delete report what a collection would condemn and delete."""
    with _lake(options, spark) as lake:
        bounds = CollectionLimits(share_max=options.share_max)
        collected = collect(lake, options.repository, bounds, dry_run=not options.delete)
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


def _terms(options: Namespace) -> dict[str, Any]:
    """The keywords that all verbs have."""
    return {
        "message": options.message,
        "metadata": dict(options.metadata),
        "job": options.job_id,
    }


def credentials(secret: str) -> Credentials:
    """The credentials from the named secret of Secrets Manager, or from the environment if `secret`
    is empty.  Errors: `Invalid` if there are none, or the secret has
    another form; `Unavailable`.  One request to Secrets Manager if a secret is named."""
    if not secret:
        variables = environment()
        keys = Credentials(variables.get(KEY_VARIABLE, ""), variables.get(SECRET_VARIABLE, ""))
        if not all(keys):
            raise Invalid(
                f"no credentials: name a secret (--secret), or set {KEY_VARIABLE} and "
                f"{SECRET_VARIABLE} where the driver runs"
            )
        return keys
    text = secret_text(AwsSession(AwsSettings(endpoint_url=endpoint_url())), secret)
    try:
        key, value = (str(json.loads(text)[name]) for name in _FIELDS)
    except (ValueError, TypeError, KeyError):  # the error does not show the text
        raise Invalid(
            f"secret must be a JSON object with {' and '.join(_FIELDS)}: {secret=}"
        ) from None
    return Credentials(key, value)


if __name__ == "__main__":
    sys.exit(main())
