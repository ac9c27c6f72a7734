"""`graveler events`: connects a bucket's notifications, and manages the event rules.

main.py imports this module for its arguments, so slow modules are imported where they are used.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from graveler.cli.options import Commands

if TYPE_CHECKING:
    from graveler.client.event_rules import EventRule

# The options of `rules add` that are fields of a rule.
_FIELDS: Final[Sequence[str]] = (
    "branch",
    "bucket",
    "prefix",
    "suffix",
    "path",
    "marker",
    "objects",
    "seconds",
)


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


def add(commands: Commands) -> None:
    """Add the command with its actions."""
    parser = commands.add_parser("events", help="commit objects that arrive in a bucket")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_connect(actions)
    _add_rules(actions)


def _add_connect(actions: Commands) -> None:
    parser = actions.add_parser(
        "connect",
        help="send notifications of a bucket's new objects to the deployment's queue",
        description="Add one notification configuration to a bucket.  Credentials come from the "
        "AWS configuration.  Other configurations of the bucket do not change.  A repeated call "
        "changes nothing.",
    )
    parser.add_argument("bucket", metavar="BUCKET")
    parser.add_argument(
        "--queue", required=True, metavar="ARN", help="the output EventsQueueArn of the deployment"
    )
    parser.add_argument(
        "--prefix", default="", metavar="P", help="only objects whose keys begin with P"
    )
    parser.add_argument("--remove", action="store_true", help="remove the configuration")
    parser.set_defaults(run=_run_connect)


def _add_rules(actions: Commands) -> None:
    parser = actions.add_parser(
        "rules",
        help="list, add and remove the event rules of a repository",
        description="Manage the event rules of a repository through the HTTP API.  Server and "
        "credentials come from the variables of lakectl: LAKECTL_SERVER_ENDPOINT_URL, "
        "LAKECTL_CREDENTIALS_ACCESS_KEY_ID and LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY.  Options "
        "override them.",
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    _add_server(verbs.add_parser("list", help="list the rules"))
    added = verbs.add_parser("add", help="add a rule: take in the objects that arrive from now on")
    _add_server(added)
    added.add_argument("--branch", required=True, metavar="NAME")
    added.add_argument("--bucket", required=True, metavar="NAME")
    for name, text in (
        ("prefix", "only objects whose keys begin with TEXT"),
        ("suffix", "only objects whose keys end with TEXT"),
        ("path", "the path of an object, from {key}, {rest} (the key after the prefix), {bucket}"),
        ("marker", "an object with this name completes a batch, for example _SUCCESS"),
    ):
        added.add_argument(f"--{name}", default=argparse.SUPPRESS, metavar="TEXT", help=text)
    for name, text in (
        ("objects", "commit a batch after N objects"),
        ("seconds", "commit a batch after N seconds"),
    ):
        added.add_argument(f"--{name}", type=int, default=argparse.SUPPRESS, metavar="N", help=text)
    removed = verbs.add_parser("remove", help="remove a rule; the objects that it took in stay")
    _add_server(removed)
    removed.add_argument("rule", metavar="RULE")


def _add_server(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("repository", metavar="REPOSITORY")
    parser.add_argument("--server", default="", metavar="URL")
    parser.add_argument("--access-key-id", default="", metavar="ID")
    parser.set_defaults(run=_run_rules)


def _run_connect(arguments: argparse.Namespace) -> int:
    return connect(
        ConnectOptions(arguments.bucket, arguments.queue, arguments.prefix, arguments.remove)
    )


def _run_rules(arguments: argparse.Namespace) -> int:
    values = vars(arguments)
    fields = {name: values[name] for name in _FIELDS if name in values}
    return rules(
        RulesOptions(
            arguments.verb,
            arguments.repository,
            values.get("rule", ""),
            fields,
            arguments.server,
            arguments.access_key_id,
        )
    )


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
