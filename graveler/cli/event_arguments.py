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
    made = commands.add_parser("events", help="take in what arrives in a bucket")
    actions = made.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_connect(actions)
    _add_rules(actions)


def _add_connect(actions: "Commands[argparse.ArgumentParser]") -> None:
    made = actions.add_parser(
        "connect",
        help="have a bucket tell the queue of the deployment of its objects",
        description="Add one notification configuration to a bucket, with the credentials of the "
        "AWS command line; those that are there stay as they are.  May be repeated.",
    )
    made.add_argument("bucket", metavar="BUCKET")
    made.add_argument(
        "--queue", required=True, metavar="ARN", help="the output EventsQueueArn of the deployment"
    )
    made.add_argument("--prefix", default="", metavar="P", help="only objects whose keys begin so")
    made.add_argument("--remove", action="store_true", help="take it away again")
    made.set_defaults(run=_connect)


def _add_rules(actions: "Commands[argparse.ArgumentParser]") -> None:
    made = actions.add_parser(
        "rules",
        help="what a repository does with objects that arrive",
        description="The rules of a repository, through the HTTP API.  Server and credentials as "
        "lakectl has them: LAKECTL_SERVER_ENDPOINT_URL, LAKECTL_CREDENTIALS_ACCESS_KEY_ID and "
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY; options come first.",
    )
    verbs = made.add_subparsers(dest="verb", required=True, metavar="VERB")
    _add_server(verbs.add_parser("list", help="show them"))
    added = verbs.add_parser("add", help="watch a bucket from now on")
    _add_server(added)
    added.add_argument("--branch", required=True, metavar="NAME")
    added.add_argument("--bucket", required=True, metavar="NAME")
    for name, what in (
        ("prefix", "only objects whose keys begin so"),
        ("suffix", "only objects whose keys end so"),
        ("path", "where they get to, of {key}, {rest} (the key behind the prefix) and {bucket}"),
        ("marker", "an object of that name completes a batch, as _SUCCESS"),
    ):
        added.add_argument(f"--{name}", default=argparse.SUPPRESS, metavar="TEXT", help=what)
    for name, what in (
        ("objects", "commit after so many objects"),
        ("seconds", "commit after so much time"),
    ):
        added.add_argument(f"--{name}", type=int, default=argparse.SUPPRESS, metavar="N", help=what)
    removed = verbs.add_parser("remove", help="end a rule; what it took in stays")
    _add_server(removed)
    removed.add_argument("rule", metavar="RULE")


def _add_server(made: argparse.ArgumentParser) -> None:
    made.add_argument("repository", metavar="REPOSITORY")
    made.add_argument("--server", default="", metavar="URL")
    made.add_argument("--access-key-id", default="", metavar="ID")
    made.set_defaults(run=_rules)


def _connect(arguments: argparse.Namespace) -> int:
    from graveler.cli.events import connect

    return connect(
        ConnectOptions(arguments.bucket, arguments.queue, arguments.prefix, arguments.remove)
    )


_SAID = ("branch", "bucket", "prefix", "suffix", "path", "marker", "objects", "seconds")


def _rules(arguments: argparse.Namespace) -> int:
    from graveler.cli.events import rules

    given = vars(arguments)
    said = {name: given[name] for name in _SAID if name in given}
    return rules(
        RulesOptions(
            arguments.verb,
            arguments.repository,
            given.get("rule", ""),
            said,
            arguments.server,
            arguments.access_key_id,
        )
    )
