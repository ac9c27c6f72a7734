"""`graveler events`: connects a bucket's notifications, and manages the event rules.

`--help` imports this module, so slow modules are imported where they are used.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from graveler.cli.command import group, operator

if TYPE_CHECKING:
    from graveler.client.event_rules import EventRule


@dataclass(frozen=True, slots=True)
class ConnectOptions:
    """`graveler events connect`."""

    bucket: str
    queue: str
    prefix: str = ""
    remove: bool = False


@dataclass(frozen=True, slots=True)
class RulesOptions:
    """`graveler events rules`.  `fields` has the fields of a new rule.  If server and key are
    empty, the environment variables apply."""

    action: str
    repository: str
    rule: str = ""
    fields: dict[str, Any] = field(default_factory=dict)
    server: str = ""
    access_key_id: str = ""


@group("events")
def events() -> None:
    """Commit objects that arrive in a bucket."""


@operator("connect", group=events)
@click.argument("bucket")
@click.option(
    "--queue", required=True, metavar="ARN", help="the output EventsQueueArn of the deployment"
)
@click.option("--prefix", default="", metavar="P", help="only objects whose keys begin with P")
@click.option("--remove", is_flag=True, help="remove the configuration")
def connect_command(**options: Any) -> int:
    """Send notifications of a bucket's new objects to the deployment's queue.

    Adds one notification configuration to a bucket.  Credentials come from the AWS configuration.
    Other configurations of the bucket do not change.  A repeated call changes nothing.
    """
    return connect(ConnectOptions(**options))


@group("rules", parent=events)
def rules_group() -> None:
    """List, add and remove the event rules of a repository.

    Server and credentials come from the variables of lakectl: LAKECTL_SERVER_ENDPOINT_URL,
    LAKECTL_CREDENTIALS_ACCESS_KEY_ID and LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY.  Options override
    them.
    """


def _server(function: Callable[..., int]) -> Callable[..., int]:
    function = click.option("--access-key-id", default="", metavar="ID")(function)
    function = click.option("--server", default="", metavar="URL")(function)
    return click.argument("repository")(function)


@operator("list", group=rules_group)
@_server
def list_command(repository: str, server: str, access_key_id: str) -> int:
    """List the rules."""
    return rules(RulesOptions("list", repository, "", {}, server, access_key_id))


@operator("add", group=rules_group)
@_server
@click.option("--branch", required=True, metavar="NAME")
@click.option("--bucket", required=True, metavar="NAME")
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
def add_command(repository: str, server: str, access_key_id: str, **fields: Any) -> int:
    """Add a rule: take in the objects that arrive from now on."""
    fields = {name: value for name, value in fields.items() if value is not None}
    return rules(RulesOptions("add", repository, "", fields, server, access_key_id))


@operator("remove", group=rules_group)
@_server
@click.argument("rule")
def remove_command(repository: str, server: str, access_key_id: str, rule: str) -> int:
    """Remove a rule; the objects that it took in stay."""
    return rules(RulesOptions("remove", repository, rule, {}, server, access_key_id))


def connect(options: ConnectOptions) -> int:
    """Connect or disconnect a bucket.  Returns 0, also if nothing had to change."""
    from graveler.aws import AwsSession
    from graveler.block import s3_notices

    change = s3_notices.disconnect if options.remove else s3_notices.connect
    done = change(AwsSession(), options.bucket, options.queue, options.prefix)
    state = "not connected" if options.remove else "connected"
    print(f"{options.bucket}: {state}{'' if done else ' already'}")
    return 0


def rules(options: RulesOptions) -> int:
    """List, add or remove rules.  Returns 0."""
    from graveler.client import connect_as_lakectl, event_rules
    from graveler.client.event_rules import NewRule
    from graveler.settings import environment

    session = connect_as_lakectl(environment(), options.server, options.access_key_id)
    if options.action == "add":
        _show(event_rules.create(session, options.repository, NewRule(**options.fields)))
    elif options.action == "remove":
        event_rules.delete(session, options.repository, options.rule)
    else:
        listed = event_rules.list_all(session, options.repository)
        for rule in listed:
            _show(rule)
        if not listed:
            print("no rules", file=sys.stderr)
    return 0


def _show(rule: "EventRule") -> None:
    fields = " ".join(
        f"{name}={getattr(rule, name)}"
        for name in ("suffix", "objects", "seconds", "marker", "committer")
        if getattr(rule, name)
    )
    source = f"s3://{rule.bucket}/{rule.prefix}"
    print(f"{rule.id}  {source} -> {rule.branch}: {rule.path}  {fields}")
