"""The console script `graveler`: finds the command, runs it, and reports a failure in one line.

`COMMANDS` names every command with its module, so that `graveler --help` imports none of them.
Exit codes are in failures.py; operator commands (command.py) end with 1 for every failure.
"""

import io
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click
from click.exceptions import Abort, ClickException

from graveler import __version__
from graveler.cli import failures
from graveler.cli.arguments import shared_options
from graveler.cli.command import Entry, Tables
from graveler.cli.invocation import Declined, Invocation
from graveler.errors import GravelerError
from graveler.variables import environment

_REFS: Final = "Repositories, branches and tags"
_HISTORY: Final = "Changes and history"
_OBJECTS: Final = "Objects"
_SETUP: Final = "This client"
_SERVER: Final = "Administer a server"
_OPERATE: Final = "Run and tend a store"

_ACCOUNT: Final = "graveler.cli.account"
_BRANCH: Final = "graveler.cli.branch"
_CHANGE: Final = "graveler.cli.change"
_DIFFERENCES: Final = "graveler.cli.differences"
_LAKECTL: Final = "graveler.cli.lakectl"
_LOG: Final = "graveler.cli.history"
_STORED: Final = "graveler.cli.objects"

COMMANDS: Final[Mapping[str, Entry]] = {
    "repo": Entry("graveler.cli.repo", "repo", "create, list and delete repositories", _REFS),
    "branch": Entry(_BRANCH, "BRANCH", "create, list and delete branches", _REFS),
    "tag": Entry("graveler.cli.tag", "tag", "create, list and delete tags", _REFS),
    "branch-protect": Entry(
        "graveler.cli.branch_protect",
        "branch_protect",
        "protect branches from direct changes",
        _REFS,
    ),
    "status": Entry(_DIFFERENCES, "status", "the uncommitted changes of a branch", _HISTORY),
    "diff": Entry(_DIFFERENCES, "diff", "what is uncommitted, or differs between refs", _HISTORY),
    "commit": Entry(_CHANGE, "commit", "commit the changes of a branch", _HISTORY),
    "log": Entry(_LOG, "log", "the commits that a ref leads to", _HISTORY),
    "show": Entry(_LOG, "show", "a commit, and what it changed", _HISTORY),
    "merge": Entry(_CHANGE, "merge", "merge one branch into another", _HISTORY),
    "pr": Entry("graveler.cli.pr", "pr", "pull requests: ask for merges, and make them", _HISTORY),
    "merge-base": Entry(_CHANGE, "merge_base", "the common ancestor of two refs", _HISTORY),
    "find-merge-base": Entry(_CHANGE, "merge_base", "the same by the name of lakectl"),
    "revert": Entry(_CHANGE, "revert", "undo a commit with a new one", _HISTORY),
    "cherry-pick": Entry(_CHANGE, "cherry_pick", "repeat a commit on a branch", _HISTORY),
    "restore": Entry(
        "graveler.cli.restore", "restore", "commit the content of an old commit", _HISTORY
    ),
    "undo": Entry(
        "graveler.cli.journal", "undo", "undo the last reset, merge or deletion", _HISTORY
    ),
    "annotate": Entry(
        "graveler.cli.annotate", "annotate", "the commit that last changed each object", _HISTORY
    ),
    "blame": Entry("graveler.cli.annotate", "annotate", "the same by the name of git"),
    "bisect": Entry("graveler.cli.bisect", "bisect", "find the commit that broke data", _HISTORY),
    "watch": Entry("graveler.cli.watch", "watch", "commits and changes, as they come", _HISTORY),
    "reset": Entry(_BRANCH, "reset", "discard uncommitted changes, or move a branch", _HISTORY),
    "ls": Entry(_STORED, "ls", "list objects", _OBJECTS),
    "stat": Entry(_STORED, "stat", "one object", _OBJECTS),
    "cat": Entry(_STORED, "cat", "print the content of objects", _OBJECTS),
    "upload": Entry("graveler.cli.uploads", "upload", "upload files to a branch", _OBJECTS),
    "download": Entry("graveler.cli.downloads", "download", "download objects", _OBJECTS),
    "cp": Entry("graveler.cli.copies", "cp", "copy objects", _OBJECTS),
    "mv": Entry("graveler.cli.moves", "mv", "move objects within a branch", _OBJECTS),
    "rm": Entry(_STORED, "rm", "delete objects on a branch", _OBJECTS),
    "presign": Entry(_STORED, "presign", "a URL with which anybody can read an object", _OBJECTS),
    "import": Entry(
        "graveler.cli.import_command",
        "import_command",
        "objects of a storage, without a copy",
        _OBJECTS,
    ),
    "local": Entry("graveler.cli.local", "local", "a folder in step with a branch", _OBJECTS),
    "fs": Entry(_LAKECTL, "FS", "the same by the names of lakectl"),
    "cat-hook-output": Entry(
        "graveler.cli.actions", "cat_hook_output", "the same by the name of lakectl"
    ),
    "identity": Entry(_ACCOUNT, "whoami", "the same by the name of lakectl"),
    "gc get-config": Entry(_LAKECTL, "gc_get_config", "the same by the name of lakectl"),
    "gc set-config": Entry(_LAKECTL, "gc_set_config", "the same by the name of lakectl"),
    "gc delete-config": Entry(_LAKECTL, "gc_delete_config", "the same by the name of lakectl"),
    "plugin list": Entry(_LAKECTL, "plugin_list", "programs graveler-NAME on PATH"),
    "usage summary": Entry("graveler.cli.usage", "usage", "the same by the name of lakectl"),
    "api": Entry("graveler.cli.api", "api", "any request to the API", _SETUP),
    "open": Entry(
        "graveler.cli.open_command", "open_command", "show an address in the browser", _SETUP
    ),
    "login": Entry(_ACCOUNT, "login", "try credentials, and keep them in a profile", _SETUP),
    "logout": Entry(_ACCOUNT, "logout", "forget a profile", _SETUP),
    "whoami": Entry(_ACCOUNT, "whoami", "show the user and the server", _SETUP),
    "config": Entry(_ACCOUNT, "config", "list, show and change profiles", _SETUP),
    "doctor": Entry(
        "graveler.cli.doctor", "doctor", "find out why commands fail, and the remedy", _SETUP
    ),
    "completion": Entry(
        "graveler.cli.completion", "completion", "complete commands and addresses", _SETUP
    ),
    "user": Entry("graveler.cli.user", "user", "users, and their access keys", _SERVER),
    "group": Entry(
        "graveler.cli.user_group", "groups_command", "groups: users with the same rights", _SERVER
    ),
    "policy": Entry("graveler.cli.policy", "policy", "policies: lists of rights", _SERVER),
    "auth": Entry("graveler.cli.auth", "auth", "users and rights by the names of lakectl"),
    "may-i": Entry("graveler.cli.policy", "may_i", "whether you have a right", _SERVER),
    "usage": Entry("graveler.cli.usage", "usage", "how many requests were answered", _SERVER),
    "jobs": Entry("graveler.cli.jobs", "jobs", "what the server does in the background", _SERVER),
    "refs": Entry("graveler.cli.refs", "refs", "dump branches and tags, and restore them", _SERVER),
    "refs-dump": Entry("graveler.cli.refs", "refs_dump", "the same by the name of lakectl"),
    "refs-restore": Entry("graveler.cli.refs", "refs_restore", "the same by the name of lakectl"),
    "actions": Entry(
        "graveler.cli.actions", "actions", "runs of hooks, and checks of action files", _SERVER
    ),
    "audit": Entry("graveler.cli.audit", "audit", "who changed what, or was denied", _SERVER),
    "serve": Entry(
        "graveler.cli.serve_command", "serve", "serve an embedded store over HTTP", _OPERATE
    ),
    "gateway": Entry(
        "graveler.cli.gateway", "gateway", "serve S3 clients of a deployment on AWS", _OPERATE
    ),
    "demo": Entry("graveler.cli.serve_command", "demo", "serve a sample lake", _OPERATE),
    "verify": Entry(
        "graveler.cli.store_commands", "verify", "check everything in a store", _OPERATE
    ),
    "gc": Entry("graveler.cli.gc", "gc_command", "find unused files, and delete them", _OPERATE),
    "retention": Entry(
        "graveler.cli.retention", "retention_command", "how long commits are kept", _OPERATE
    ),
    "credentials": Entry(
        "graveler.cli.store_commands",
        "credentials",
        "new credentials for the administrator, new keys",
        _OPERATE,
    ),
    "events": Entry(
        "graveler.cli.events", "events", "commit objects that arrive in a bucket", _OPERATE
    ),
}
_EPILOG: Final = """`graveler COMMAND --help` shows options and examples.

\b
First steps (serve needs pip install 'graveler[cli,server]'):
  graveler serve --store DIR                     # in another terminal; prints a token
  graveler login http://127.0.0.1:8000 --setup   # or: graveler login URL, of a known server
  graveler repo create lake                      # on S3: repo create lake s3://BUCKET/lake
  graveler branch create lake/dev
  graveler upload FILE lake/dev/
  graveler commit lake/dev -m "Add a file"
  graveler merge lake/dev main

\b
Exit codes (commands that run and tend a store end with 1 for every failure):
  0 done; 1 failed, or the answer is no; 2 wrong usage; 3 does not exist; 4 not allowed;
  5 conflict; 6 not possible now, may be repeated; 7 the outcome of a write is unknown;
  8 some of several failed; 130 interrupted
"""
# The extras of the package that bring what some commands import.
_EXTRAS: Final = {
    **dict.fromkeys(("boto3", "botocore", "pynamodb"), "aws"),
    **dict.fromkeys(("cryptography", "fastapi", "jwt", "msgspec", "uvicorn", "yaml"), "server"),
    **dict.fromkeys(("airportsdata", "lakefs"), "demo"),
}


def root() -> Tables:
    """The root of all commands."""
    return Tables(
        "graveler",
        table=COMMANDS,
        help="Git for data lakes: branches, commits and merges over an object store.\n\n"
        "Addresses are REPOSITORY, REPOSITORY/REF or REPOSITORY/REF/PATH, for example "
        "lake/main/sales/2026.csv.\n\n"
        "Any server with the API of lakeFS is served. lakectl is the client of lakeFS: its file "
        "and variables are read, and lakefs:// may stand before addresses, as it does there.",
        epilog=_EPILOG,
        params=[
            click.Option(
                ["--version"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_print_version,
                help="print the version",
            ),
            *shared_options(),
        ],
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    invocation = Invocation()
    instruction = environment().get("_GRAVELER_COMPLETE")
    if instruction and argv is None:
        from click.shell_completion import shell_complete

        how = {"obj": invocation}
        return shell_complete(root(), how, "graveler", "_GRAVELER_COMPLETE", instruction)
    try:
        if isinstance(sys.stdout, io.TextIOWrapper):  # a name need not be one that it can encode
            sys.stdout.reconfigure(errors="backslashreplace")
        code = _run(list(sys.argv[1:] if argv is None else argv), invocation)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader of the output has closed it; no message can reach it
        _drop_output()
        return failures.FAILED
    except (OSError, UnicodeError) as error:
        code = failures.report_system(error, invocation)
        try:
            sys.stdout.flush()
        except OSError:  # what is left cannot be written; Python would try again at the end
            _drop_output()
        return code


def _drop_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(argv: list[str], invocation: Invocation) -> int:
    command = root()
    if argv[:1] == ["help"]:  # as git and lakectl have it
        argv = [*argv[1:], "--help"]
    try:
        with command.make_context("graveler", argv, obj=invocation) as context:
            return int(command.invoke(context) or 0)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except ClickException as error:
        return failures.report_usage(error, invocation)
    except GravelerError as error:
        return failures.report(error, invocation)
    except Declined:
        print("graveler: nothing was changed", file=sys.stderr)
        return failures.FAILED
    except ModuleNotFoundError as error:
        return _missing(error, argv)
    except (KeyboardInterrupt, Abort, EOFError):
        return failures.INTERRUPTED


def _missing(error: ModuleNotFoundError, argv: list[str]) -> int:
    package = (error.name or "").partition(".")[0]
    if package not in _EXTRAS:
        raise error
    sys.stdout.flush()
    command = next((word for word in argv if word in COMMANDS), "")
    print(
        f"{f'graveler {command}'.strip()}: package {package} is not installed: it comes with "
        f"pip install 'graveler[{_EXTRAS[package]}]'",
        file=sys.stderr,
    )
    return failures.FAILED


def _print_version(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value:
        print(f"graveler {__version__}")
        ctx.exit()
