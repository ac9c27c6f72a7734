"""The entry point of jobs: `spark-submit`, EMR Serverless and Glue call it with arguments.

    import --url https://host --target lake/main/in/ --source s3://…     rows into one commit
    commit --url https://host --branch lake/main                        many staged rows
    pack   --url https://host --branch lake/main --min-size 8388608     fewer ranges
    gc     --url https://host --repository lake --delete                garbage

The arguments are checked before Spark starts.  No argument is a secret: the credentials of the API
come from a named secret of Secrets Manager, or from the environment of the driver.  The job prints
its result as one JSON object on standard output.  Exit codes: 0 done, 1 failed (the error is on
standard error), 2 wrong arguments.  For deployments of jobs (`infra/`).
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from pyspark.sql import SparkSession

from graveler.errors import GravelerError, Invalid
from graveler.spark.job_runs import run_collect, run_commit, run_import, run_pack
from graveler.spark.lake import parse_target

_FORMATS: Final = ("parquet", "orc", "csv", "json")
Jobs = argparse._SubParsersAction  # the type has no public name


def main(words: Sequence[str] | None = None) -> int:
    """Run one job in its own Spark session; return the exit code."""
    said = parser().parse_args(words)
    spark = SparkSession.builder.appName(f"graveler {said.job}").getOrCreate()
    try:
        return run(said, spark)
    finally:
        spark.stop()


def run(said: argparse.Namespace, spark: SparkSession) -> int:
    """Run one job in the given session and print its result; return the exit code."""
    job: Callable[[argparse.Namespace, SparkSession], dict[str, Any]] = said.run
    try:
        done = job(said, spark)
    except GravelerError as error:
        print(f"graveler {said.job}: {error}", file=sys.stderr)
        return 1
    print(json.dumps({"job": said.job, **done}), flush=True)
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
    made = _added(jobs, "import", "land rows that name objects as one commit", run_import)
    _add_target(made, "--target", "REPOSITORY/BRANCH/PREFIX", "where the rows land")
    made.add_argument(
        "--source", required=True, metavar="PATH", help="what Spark reads the rows from"
    )
    made.add_argument(
        "--format", choices=_FORMATS, default="", help="of the source (default: parquet)"
    )
    made.add_argument(
        "--column",
        action="append",
        default=[],
        type=_pair,
        metavar="NAME=EXPRESSION",
        help="a column of the import by an expression of SQL over the source's; several times",
    )
    made.add_argument(
        "--inventory",
        action="store_true",
        help="the source is the manifest.json of a delivery of an S3 Inventory",
    )
    made.add_argument(
        "--below", default="", metavar="PREFIX", help="only keys of the inventory that begin so"
    )
    made.add_argument("--mode", choices=("replace", "merge"), default="replace")
    made.add_argument("--on-bad", choices=("fail", "skip"), default="fail")
    _add_terms(made)


def _add_commit(jobs: "Jobs[argparse.ArgumentParser]") -> None:
    made = _added(jobs, "commit", "commit very many uncommitted rows", run_commit)
    _add_target(made, "--branch", "REPOSITORY/BRANCH", "whose uncommitted rows")
    made.add_argument(
        "--table", default="", help="the DynamoDB table, which executors then read by themselves"
    )
    _add_terms(made)


def _add_pack(jobs: "Jobs[argparse.ArgumentParser]") -> None:
    made = _added(jobs, "pack", "write a branch's head in fewer ranges, if it pays", run_pack)
    _add_target(made, "--branch", "REPOSITORY/BRANCH", "whose head")
    for name, text in (
        ("--min-size", "bytes of keys and values that a range has at least"),
        ("--max-size", "bytes after which it ends in any case"),
        ("--raggedness", "one in so many keys may end it otherwise"),
    ):
        made.add_argument(name, type=int, metavar="N", help=f"{text} (default: as it is)")
    made.add_argument("--dry-run", action="store_true", help="only say how many there would be")
    _add_terms(made)


def _add_gc(jobs: "Jobs[argparse.ArgumentParser]") -> None:
    made = _added(jobs, "gc", "find garbage, and delete it a run later", run_collect)
    made.add_argument(
        "--repository", action="append", required=True, metavar="NAME", help="several times"
    )
    made.add_argument(
        "--delete", action="store_true", help="condemn and delete (default: only say what would be)"
    )
    made.add_argument(
        "--share-max",
        type=_share,
        default=0.5,
        metavar="SHARE",
        help="the greatest share of a repository's files that may go (default: 0.5)",
    )
    made.add_argument("--report", default="", metavar="PATH", help="write the report there")


def _added(
    jobs: "Jobs[argparse.ArgumentParser]",
    name: str,
    text: str,
    job: Callable[[argparse.Namespace, SparkSession], dict[str, Any]],
) -> argparse.ArgumentParser:
    made = jobs.add_parser(name, help=text, description=text, allow_abbrev=False)
    made.add_argument("--url", default="", help="the server's")
    made.add_argument(
        "--store",
        default="",
        metavar="DIR",
        help="the folder of an embedded store; without --url it is served while the job runs",
    )
    made.add_argument(
        "--secret",
        default="",
        metavar="NAME",
        help="of Secrets Manager, with access_key_id and secret_access_key as JSON (default: the "
        "variables LAKECTL_CREDENTIALS_ACCESS_KEY_ID and _SECRET_ACCESS_KEY)",
    )
    made.set_defaults(run=job)
    return made


def _add_terms(made: argparse.ArgumentParser) -> None:
    made.add_argument("--message", default="", help="of the commit")
    made.add_argument(
        "--metadata", action="append", default=[], type=_pair, metavar="NAME=VALUE", help="of it"
    )
    made.add_argument(
        "--job-id", default="", metavar="ID", help="go on where a job of this name has ended"
    )


def _add_target(made: argparse.ArgumentParser, name: str, form: str, text: str) -> None:
    made.add_argument(name, required=True, type=_target, metavar=form, help=text)


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
        raise argparse.ArgumentTypeError(f"a share is above 0 and at most 1: {text!r:.200}")
    return share


if __name__ == "__main__":
    sys.exit(main())
