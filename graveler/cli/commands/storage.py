"""`graveler storage`: what a bucket of your own needs besides the rights of the service.

Slow modules are imported where they are used.
"""

import json

import click

from graveler.cli.support.command import group, operator
from graveler.cli.support.options import Checked
from graveler.http.front import cors_origin


@group("storage")
def storage() -> None:
    """Set up a bucket of your own."""


@operator(
    "cors",
    group=storage,
    examples=(
        "graveler storage cors sales-data --origin https://lake.example.org",
        "graveler storage cors sales-data --origin '*' --dry-run",
        "graveler storage cors sales-data --origin https://lake.example.org --remove",
    ),
)
@click.argument("bucket")
@click.option(
    "--origin",
    type=Checked("ORIGIN", cors_origin),
    required=True,
    help="the page's address, http[s]://HOST[:PORT], or * for any",
)
@click.option("--remove", is_flag=True, help="remove the rule for this origin")
@click.option("--dry-run", is_flag=True, help="print the rules that the bucket would have, as JSON")
def cors(bucket: str, origin: str, remove: bool, dry_run: bool) -> int:
    """Let the page read and write a bucket by signed URLs.

    Adds one CORS rule to a bucket.  Credentials come from the AWS configuration.  Other rules of
    the bucket do not change.  A repeated call changes nothing.  With the origin `*`, pages of any
    address may use signed URLs, which nobody has without the rights to make them.
    """
    from graveler.block import s3_cors
    from graveler.core.aws import AwsSession

    session = AwsSession()
    before = s3_cors.read(session, bucket)
    rules = (s3_cors.without_rule if remove else s3_cors.with_rule)(before, origin)
    if dry_run:
        print(json.dumps({"CORSRules": rules}, indent=2))
        return 0
    done = s3_cors.replace(session, bucket, before, rules)
    state = "no rule" if remove else "a rule"
    print(f"{bucket}: {state} for {origin}{'' if done else ' already'}")
    return 0
