"""`graveler events`: connects a bucket's notifications, and manages the event rules.

Slow modules are imported where they are used.
"""

from typing import Any, Final

import click

from graveler.cli.support.command import client, group, operator
from graveler.cli.support.invocation import Invocation
from graveler.cli.support.options import address_argument, yes
from graveler.cli.support.output import Column, field


@group("events")
def events() -> None:
    """Commit objects that arrive in a bucket."""


@operator(
    "connect",
    group=events,
    examples=(
        "graveler events connect landing --queue arn:aws:sqs:eu-central-1:123456789012:events",
        "graveler events connect landing --queue arn:aws:sqs:eu-central-1:123456789012:events "
        "--prefix in/",
        "graveler events connect landing --queue arn:aws:sqs:eu-central-1:123456789012:events "
        "--remove",
    ),
)
@click.argument("bucket")
@click.option(
    "--queue", required=True, metavar="ARN", help="the output EventsQueueArn of the deployment"
)
@click.option("--prefix", default="", metavar="P", help="only objects whose keys begin with P")
@click.option("--remove", is_flag=True, help="remove the configuration")
def connect(bucket: str, queue: str, prefix: str, remove: bool) -> int:
    """Send notifications of a bucket's new objects to the deployment's queue.

    Adds one notification configuration to a bucket.  Credentials come from the AWS configuration.
    Other configurations of the bucket do not change.  A repeated call changes nothing.
    """
    from graveler.block import s3_notices
    from graveler.core.aws import AwsSession

    change = s3_notices.disconnect if remove else s3_notices.connect
    done = change(AwsSession(), bucket, queue, prefix)
    state = "not connected" if remove else "connected"
    print(f"{bucket}: {state}{'' if done else ' already'}")
    return 0


@group("rules", parent=events)
def rules_group() -> None:
    """List, add and remove the event rules of a repository."""


_COLUMNS: Final = (
    field("id"),
    Column("SOURCE", lambda rule: f"s3://{rule['bucket']}/{rule['prefix']}"),
    field("suffix"),
    field("branch"),
    field("path"),
    field("objects", "count"),
    field("seconds", "count"),
    field("marker"),
    field("committer"),
)


@client("list", group=rules_group, examples=("graveler events rules list lake",))
@address_argument("repository")
def list_rules(invocation: Invocation, repository: str) -> int:
    """List the rules."""
    name = invocation.repository(repository)
    invocation.output.items(_COLUMNS, invocation.repo(name).events.list(), none="no rules")
    return 0


@client(
    "add",
    group=rules_group,
    examples=(
        "graveler events rules add lake --branch main --bucket landing",
        "graveler events rules add lake --branch main --bucket landing --prefix in/ "
        "--path 'raw/{rest}' --marker _SUCCESS",
    ),
)
@address_argument("repository")
@click.option("--branch", required=True, metavar="NAME", help="where the objects are staged")
@click.option("--bucket", required=True, metavar="NAME", help="where the objects arrive")
@click.option("--prefix", metavar="TEXT", help="only objects whose keys begin with TEXT")
@click.option("--suffix", metavar="TEXT", help="only objects whose keys end with TEXT")
@click.option(
    "--path",
    metavar="TEXT",
    help="the path of an object, from {key}, {rest} (the key after the prefix), {bucket}",
)
@click.option(
    "--marker",
    metavar="TEXT",
    help="an object with this name completes a batch, for example _SUCCESS",
)
@click.option("--objects", type=int, metavar="N", help="commit a batch after N objects")
@click.option("--seconds", type=int, metavar="N", help="commit a batch after N seconds")
def add_rule(invocation: Invocation, repository: str, **fields: Any) -> int:
    """Add a rule: take in the objects that arrive from now on."""
    name = invocation.repository(repository)
    given = {option: value for option, value in fields.items() if value is not None}
    created = invocation.repo(name).events.create(**given)
    invocation.output.pairs(created, _COLUMNS)
    return 0


@client(
    "remove",
    group=rules_group,
    examples=("graveler events rules remove lake 01K8ZQ3VJ5 --yes",),
)
@address_argument("repository")
@click.argument("rule")
@yes
def remove_rule(invocation: Invocation, repository: str, rule: str, yes: bool) -> int:
    """Remove a rule; the objects that it took in stay."""
    name = invocation.item_of(repository, rule, "graveler events rules list")
    rules = invocation.repo(name).events
    if not yes:
        known = rules.get(rule)
        source = f"s3://{known.bucket}/{known.prefix}"
        question = f"Remove the rule {rule}, which takes {source} in to {name}/{known.branch}?"
        invocation.confirm(f"{question}  What arrives later is taken in by no other rule.", yes=yes)
    rules.delete(rule)
    invocation.output.done(f"removed rule {rule}")
    return 0
