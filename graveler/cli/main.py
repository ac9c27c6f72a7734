"""The console script `graveler`: parses arguments, runs one command, prints a failure in one line.

Exit codes: 0 done, 1 failed (stderr has the reason and the remedy), 2 wrong usage, 130 interrupted
before the end.  Slow modules are imported only when a command is called, so `--help` is instant.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from graveler import __version__, limits
from graveler.api import front
from graveler.cli import events, gateway, gc
from graveler.cli.options import (
    Commands,
    CredentialsOptions,
    DemoOptions,
    S3Options,
    ServeOptions,
    VerifyOptions,
    add_insecure_http,
    add_listen,
    add_proxy,
    add_rate,
    add_s3,
    add_store,
    checked,
    parse_audit_mib,
)
from graveler.errors import GravelerError, Invalid
from graveler.settings import environment, hook_settings, identity_settings

INTERRUPTED = 130
# The extras of the package that bring what some commands import.
_EXTRAS = {
    **dict.fromkeys(("boto3", "botocore", "pynamodb"), "aws"),
    **dict.fromkeys(("cryptography", "fastapi", "jwt", "msgspec", "uvicorn", "yaml"), "server"),
    **dict.fromkeys(("airportsdata", "lakefs"), "demo"),
}


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
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRAS:
            raise
        sys.stdout.flush()
        print(
            f"graveler {arguments.command}: package {package} is not installed: it comes with "
            f"pip install 'graveler[{_EXTRAS[package]}]'",
            file=sys.stderr,
        )
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


def parser() -> argparse.ArgumentParser:
    """All commands and their arguments."""
    root = argparse.ArgumentParser(
        prog="graveler", description="Git for data lakes, with the HTTP API of lakeFS."
    )
    root.add_argument("--version", action="version", version=f"graveler {__version__}")
    commands = root.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_serve(commands)
    gateway.add(commands)
    _add_demo(commands)
    _add_verify(commands)
    _add_credentials(commands)
    gc.add(commands)
    events.add(commands)
    return root


def _add_serve(commands: Commands) -> None:
    parser = commands.add_parser(
        "serve",
        help="serve an embedded store over HTTP until interrupted",
        description="Serve the store in a folder over HTTP until SIGINT or SIGTERM.  If "
        "GRAVELER_ACCESS_KEY_ID and GRAVELER_SECRET_ACCESS_KEY are set, they are the "
        "administrator's credentials.  Otherwise the API's setup call creates credentials.",
    )
    add_store(parser)
    add_listen(parser)
    add_insecure_http(parser)
    _add_import_roots(parser, "a folder that imports may read")
    parser.add_argument(
        "--collect-hours",
        type=int,
        default=0,
        metavar="N",
        help="collect garbage every N hours, like `graveler gc --delete` (default: never)",
    )
    parser.add_argument(
        "--commit-rows-max",
        type=int,
        default=0,
        metavar="N",
        help="commit more than N uncommitted rows only with Spark (default: no limit)",
    )
    add_rate(parser, "no limit")
    parser.add_argument(
        "--audit-mib-max",
        type=checked(parse_audit_mib),
        default=limits.audit_bytes_max,
        metavar="N",
        help="keep at most N MiB of the audit trail; the oldest files go first (default: "
        f"{limits.audit_bytes_max >> 20})",
    )
    _add_front(parser)
    add_s3(parser)
    _add_hooks(parser)
    parser.set_defaults(run=_serve)


def _add_front(parser: argparse.ArgumentParser) -> None:
    add_proxy(parser)
    parser.add_argument(
        "--allowed-host",
        action="append",
        default=[],
        metavar="NAME",
        help="another host name at which clients may log in or set up (repeatable; IP addresses, "
        "localhost and the host of the public URL are always allowed)",
    )


def _add_hooks(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--hooks-allow",
        action="append",
        default=[],
        metavar="HOST[:PORT]",
        help="a host that the hooks of repositories may reach by https (repeatable; needs "
        "GRAVELER_HOOKS_SECRET; default: none, and action files have no effect)",
    )
    parser.add_argument(
        "--hooks-allow-loopback",
        action="store_true",
        help="for local tests: allowed hosts may be addresses of this machine, also by http",
    )


def _add_demo(commands: Commands) -> None:
    parser = commands.add_parser(
        "demo",
        help="serve a store with a sample lake, and show how it was versioned",
        description="Serve a store.  The first run also versions a real data set in it (28,000 "
        "airports) with the lakefs package, and prints each step.",
    )
    add_store(parser)
    add_listen(parser)
    add_insecure_http(parser)
    parser.add_argument("--once", action="store_true", help="stop after the story")
    parser.set_defaults(run=_demo)


def _add_verify(commands: Commands) -> None:
    parser = commands.add_parser(
        "verify",
        help="check everything reachable in a store that is not being served",
        description="Check every reachable commit, metarange and range of a store.  The exit code "
        "is 1 if anything is damaged.",
    )
    add_store(parser)
    parser.add_argument(
        "--objects",
        action="store_true",
        help="also check that every object exists and has its size",
    )
    _add_import_roots(parser, "a folder with imported objects")
    parser.set_defaults(run=_verify)


def _add_import_roots(parser: argparse.ArgumentParser, purpose: str) -> None:
    parser.add_argument(
        "--import-root",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help=f"{purpose} (repeatable; without it: no imports)",
    )


def _add_credentials(commands: Commands) -> None:
    parser = commands.add_parser("credentials", help="manage the administrator's credentials")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    reset = actions.add_parser(
        "reset",
        help="create new credentials; the old ones and all sessions end",
        description="Create new credentials for the administrator of a store that is not being "
        "served, or of a stack on AWS, and print them once.  The old ones and all sessions end.",
    )
    _add_whose(reset)
    reset.add_argument(
        "--save",
        action="store_true",
        help="also write them to the file `credentials` in the store (mode 0600)",
    )
    reset.set_defaults(run=_credentials_reset)
    rotate = actions.add_parser(
        "rotate",
        help="replace the keys that sign sessions and encrypt secrets",
        description="Replace the keys that sign sessions and encrypt the secrets of access keys, "
        "and encrypt all secrets anew.  Sessions and access keys go on.",
    )
    _add_whose(rotate)
    rotate.add_argument(
        "--kms-key",
        default="",
        metavar="ARN",
        help="the parameter KeysKmsKeyArn of the stack, if it is set",
    )
    rotate.add_argument(
        "--end-sessions",
        action="store_true",
        help="end all sessions: their old keys verify no more",
    )
    rotate.set_defaults(run=_credentials_rotate)


def _add_whose(parser: argparse.ArgumentParser) -> None:
    whose = parser.add_mutually_exclusive_group(required=True)
    whose.add_argument("--store", type=Path, metavar="DIR", help="the folder of the store")
    whose.add_argument(
        "--stack",
        default="",
        metavar="NAME",
        help="a deployment on AWS; credentials and region come from the AWS configuration",
    )


def _serve(arguments: argparse.Namespace) -> int:
    from graveler.cli.serve import serve

    roots = tuple(arguments.import_root)
    hours, rows = arguments.collect_hours, arguments.commit_rows_max
    before = front.Front(
        arguments.public_url or "", tuple(arguments.trusted_proxy), tuple(arguments.allowed_host)
    )
    hooks = hook_settings(
        environment(), tuple(arguments.hooks_allow), loopback=arguments.hooks_allow_loopback
    )
    identities = identity_settings(
        environment(), front.host_of(before.public_url.partition("://")[2])
    )
    s3 = S3Options(tuple(arguments.s3_domain), arguments.s3_v2_writes)
    s3.check(arguments.listen, before)
    return serve(
        ServeOptions(
            arguments.store,
            arguments.listen,
            roots,
            hours,
            rows,
            before,
            hooks=hooks,
            identities=identities,
            audit_bytes_max=arguments.audit_mib_max,
            s3=s3,
            insecure_http=arguments.insecure_http,
            user_requests_per_second=arguments.user_requests_per_second,
        )
    )


def _demo(arguments: argparse.Namespace) -> int:
    from graveler.cli.demo import demo

    return demo(
        DemoOptions(arguments.store, arguments.listen, arguments.once, arguments.insecure_http)
    )


def _verify(arguments: argparse.Namespace) -> int:
    from graveler.cli.verify import verify

    roots = tuple(arguments.import_root)
    return verify(VerifyOptions(arguments.store, arguments.objects, roots))


def _credentials_reset(arguments: argparse.Namespace) -> int:
    from graveler.cli.credentials import reset, reset_stack

    if arguments.stack:
        if arguments.save:
            raise Invalid(
                "--save needs the folder of a store, and a stack has none: leave --save out"
            )
        return reset_stack(arguments.stack)
    return reset(CredentialsOptions(arguments.store, arguments.save))


def _credentials_rotate(arguments: argparse.Namespace) -> int:
    from graveler.cli.credentials import rotate, rotate_stack

    ends: bool = arguments.end_sessions
    if arguments.stack:
        return rotate_stack(arguments.stack, arguments.kms_key, ends_sessions=ends)
    if arguments.kms_key:
        raise Invalid("--kms-key needs a stack: leave it out")
    return rotate(arguments.store, ends_sessions=ends)


if __name__ == "__main__":
    sys.exit(main())
