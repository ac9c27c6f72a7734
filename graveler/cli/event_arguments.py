"""Defines the arguments of `graveler events`.  Imports no slow modules.  For main.py."""

import argparse
from dataclasses import dataclass, field
from typing import Any

Commands = argparse._SubParsersAction  # the type has no public name


@dataclass(frozen=True, slots=True)
class ConnectOptions:
    """`graveler events connect`."""

    bucket: str
    queue: str
    prefix: str = ""
    remove: bool = False


@dataclass(frozen=True, slots=True)
class RulesOptions:
    """`graveler events rules`.  `said` has the fields of a new rule.  If server and key are empty,
    the environment variables apply."""

    action: str
    repository: str
    rule: str = ""
    said: dict[str, Any] = field(default_factory=dict)
    server: str = ""
    access_key_id: str = ""


def add(commands: "Commands[argparse.ArgumentParser]") -> None:
    """Add the command with its actions."""
    parser = commands.add_parser("events", help="commit objects that arrive in a bucket")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_connect(actions)
    _add_rules(actions)


def _add_connect(actions: "Commands[argparse.ArgumentParser]") -> None:
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
    parser.set_defaults(run=_connect)


def _add_rules(actions: "Commands[argparse.ArgumentParser]") -> None:
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
    parser.set_defaults(run=_rules)


def _connect(arguments: argparse.Namespace) -> int:
    from graveler.cli.events import connect

    return connect(
        ConnectOptions(arguments.bucket, arguments.queue, arguments.prefix, arguments.remove)
    )


_SAID = ("branch", "bucket", "prefix", "suffix", "path", "marker", "objects", "seconds")


def _rules(arguments: argparse.Namespace) -> int:
    from graveler.cli.events import rules

    values = vars(arguments)
    fields = {name: values[name] for name in _SAID if name in values}
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
