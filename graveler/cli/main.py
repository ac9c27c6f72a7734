"""The console script `graveler`: parses arguments, runs one command, prints a failure in one line.

Exit codes: 0 done, 1 failed (stderr has the reason and the remedy), 2 wrong usage, 130 interrupted
before the end.  A command's module is imported only when the command is called, so `--help` is
instant.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from graveler import __version__
from graveler.api import front
from graveler.cli import event_arguments, gc_arguments
from graveler.cli.options import (
    CredentialsOptions,
    DemoOptions,
    ServeOptions,
    VerifyOptions,
    parse_listen,
)
from graveler.errors import GravelerError, Invalid

T = TypeVar("T")
LISTEN_DEFAULT = "127.0.0.1:8000"
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    try:
        code = _called(parser().parse_args(argv))
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader of the output has closed it; no message can reach it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _called(arguments: argparse.Namespace) -> int:
    run: Callable[[argparse.Namespace], int] = arguments.run
    try:
        return run(arguments)
    except GravelerError as error:
        sys.stdout.flush()
        print(f"graveler {arguments.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


def parser() -> argparse.ArgumentParser:
    """All commands and their arguments."""
    root = argparse.ArgumentParser(
        prog="graveler", description="Git for data lakes, behind lakeFS's HTTP API."
    )
    root.add_argument("--version", action="version", version=f"graveler {__version__}")
    commands = root.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_serve(commands)
    _add_demo(commands)
    _add_verify(commands)
    _add_credentials(commands)
    gc_arguments.add(commands)
    event_arguments.add(commands)
    return root


Commands = argparse._SubParsersAction  # the type has no public name


def _add_serve(commands: "Commands[argparse.ArgumentParser]") -> None:
    made = commands.add_parser(
        "serve",
        help="serve an embedded store over HTTP until interrupted",
        description="Serve the store in a folder over HTTP until SIGINT or SIGTERM.  With "
        "GRAVELER_ACCESS_KEY_ID and GRAVELER_SECRET_ACCESS_KEY set the administrator has these "
        "credentials; without them the set-up call of the API makes them.",
    )
    _add_store(made)
    _add_listen(made)
    _add_import_roots(made, "imports may read below this folder")
    made.add_argument(
        "--collect-hours",
        type=int,
        default=0,
        metavar="N",
        help="collect garbage every N hours, as `graveler gc --delete` does (default: never)",
    )
    made.add_argument(
        "--commit-rows-max",
        type=int,
        default=0,
        metavar="N",
        help="leave commits of more than N uncommitted rows to Spark (default: no bound)",
    )
    _add_front(made)
    made.set_defaults(run=_serve)


def _add_front(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--public-url",
        type=_checked(front.public_url),
        metavar="URL",
        help="how clients reach the service, as http[s]://HOST[:PORT]; signed URLs and cookies are "
        "made for it, and clients are told to use signed URLs (default: as each request names it)",
    )
    made.add_argument(
        "--trusted-proxy",
        type=_checked(front.network),
        action="append",
        default=[],
        metavar="CIDR",
        help="believe the X-Forwarded-* headers of proxies in this network (may be given more than "
        "once; default: of nobody)",
    )
    made.add_argument(
        "--allowed-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a further host name by which clients may log in or set up (may be given more than "
        "once; IP addresses, localhost and the public URL's host always are)",
    )


def _add_demo(commands: "Commands[argparse.ArgumentParser]") -> None:
    made = commands.add_parser(
        "demo",
        help="serve a store with a sample lake, and tell how it was versioned",
        description="Serve a store; on the first run, version a real data set in it (28,000 "
        "airports) through the lakefs package and say what was done.",
    )
    _add_store(made)
    _add_listen(made)
    made.add_argument("--once", action="store_true", help="end after the story")
    made.set_defaults(run=_demo)


def _add_verify(commands: "Commands[argparse.ArgumentParser]") -> None:
    made = commands.add_parser(
        "verify",
        help="check everything reachable in a store that nobody serves",
        description="Check every reachable commit, metarange and range of a store.  Exit code 1 "
        "if anything is damaged.",
    )
    _add_store(made)
    made.add_argument(
        "--objects", action="store_true", help="also that every object is there, with its size"
    )
    _add_import_roots(made, "imported objects lie below this folder")
    made.set_defaults(run=_verify)


def _add_import_roots(made: argparse.ArgumentParser, what: str) -> None:
    made.add_argument(
        "--import-root",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help=f"{what} (may be given more than once; none: no imports)",
    )


def _add_credentials(commands: "Commands[argparse.ArgumentParser]") -> None:
    made = commands.add_parser("credentials", help="the administrator's credentials")
    actions = made.add_subparsers(dest="action", required=True, metavar="ACTION")
    reset = actions.add_parser(
        "reset",
        help="make new ones; the old ones and all sessions end",
        description="Make new credentials for the administrator of a store that nobody serves, "
        "or of a stack on AWS, and print them once.  The old ones and all sessions end.",
    )
    whose = reset.add_mutually_exclusive_group(required=True)
    whose.add_argument("--store", type=Path, metavar="DIR", help="the folder of the store")
    whose.add_argument(
        "--stack",
        default="",
        metavar="NAME",
        help="a deployment on AWS, with the credentials and the region of the AWS command line",
    )
    reset.add_argument(
        "--save",
        action="store_true",
        help="also write them to the file `credentials` of the store (mode 0600)",
    )
    reset.set_defaults(run=_credentials_reset)


def _add_store(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--store", type=Path, required=True, metavar="DIR", help="the folder of the store"
    )


def _add_listen(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--listen",
        type=_checked(parse_listen),
        default=LISTEN_DEFAULT,
        metavar="HOST:PORT",
        help=f"where to listen (default {LISTEN_DEFAULT}; port 0: any free one)",
    )


def _checked(parse: Callable[[str], T]) -> Callable[[str], T]:
    """A wrapper of `parse` that makes argparse report `Invalid` as wrong usage."""

    def parsed(text: str) -> T:
        try:
            return parse(text)
        except Invalid as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parsed


def _serve(arguments: argparse.Namespace) -> int:
    from graveler.cli.serve import serve

    roots = tuple(arguments.import_root)
    hours, rows = arguments.collect_hours, arguments.commit_rows_max
    before = front.Front(
        arguments.public_url or "", tuple(arguments.trusted_proxy), tuple(arguments.allowed_host)
    )
    return serve(ServeOptions(arguments.store, arguments.listen, roots, hours, rows, before))


def _demo(arguments: argparse.Namespace) -> int:
    from graveler.cli.demo import demo

    return demo(DemoOptions(arguments.store, arguments.listen, arguments.once))


def _verify(arguments: argparse.Namespace) -> int:
    from graveler.cli.verify import verify

    roots = tuple(arguments.import_root)
    return verify(VerifyOptions(arguments.store, arguments.objects, roots))


def _credentials_reset(arguments: argparse.Namespace) -> int:
    from graveler.cli.credentials import reset, reset_stack

    if arguments.stack:
        if arguments.save:
            raise Invalid("--save writes into the folder of a store; a stack has none")
        return reset_stack(arguments.stack)
    return reset(CredentialsOptions(arguments.store, arguments.save))
