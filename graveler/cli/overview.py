"""`graveler --help`: all commands, the options that client commands share, and the first steps.

`COMMANDS` names every command with its module, so that the help imports none of them.  The text is
laid out here, because Click takes longer to import than the rest of this help takes to print: this
module needs only small modules of the standard library.  For this folder.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from textwrap import TextWrapper
from typing import Final, NamedTuple

from graveler.variables import environment


class Entry(NamedTuple):
    """A line of a table of commands: where the command is, and its help line."""

    module: str
    name: str
    help: str
    section: str = ""  # empty: hidden from help


class ClientOption(NamedTuple):
    """An option of all client commands.  Without `metavar` it is a flag."""

    names: tuple[str, ...]
    help: str
    metavar: str = ""


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
    "undo": Entry("graveler.cli.undo", "undo", "undo the last reset, merge or deletion", _HISTORY),
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
    "upload": Entry(
        "graveler.cli.commands.transfer", "upload", "upload files to a branch", _OBJECTS
    ),
    "download": Entry("graveler.cli.commands.transfer", "download", "download objects", _OBJECTS),
    "cp": Entry("graveler.cli.commands.transfer", "cp", "copy objects", _OBJECTS),
    "mv": Entry("graveler.cli.commands.transfer", "mv", "move objects within a branch", _OBJECTS),
    "rm": Entry(_STORED, "rm", "delete objects on a branch", _OBJECTS),
    "presign": Entry(_STORED, "presign", "a URL with which anybody can read an object", _OBJECTS),
    "import": Entry(
        "graveler.cli.import_command",
        "import_command",
        "objects of a storage, without a copy",
        _OBJECTS,
    ),
    "local": Entry(
        "graveler.cli.commands.local", "local", "a folder in step with a branch", _OBJECTS
    ),
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
    "config": Entry("graveler.cli.config", "config", "list, show and change profiles", _SETUP),
    "doctor": Entry(
        "graveler.cli.doctor", "doctor", "find out why commands fail, and the remedy", _SETUP
    ),
    "completion": Entry(
        "graveler.cli.completion_command", "completion", "complete commands and addresses", _SETUP
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
# The extras of the package that a command needs; all others need `cli`.
_EXTRAS: Final[Mapping[str, str]] = {
    "serve": "cli,server",
    "demo": "cli,demo,server",
    "gateway": "cli,gateway",
}
_OPTIONS_TITLE: Final = "Options, before or after a client command"
_ABOUT: Final = (
    "Git for data lakes: branches, commits and merges over an object store.",
    "Addresses are REPOSITORY, REPOSITORY/REF or REPOSITORY/REF/PATH, for example "
    "lake/main/sales/2026.csv. A REF is a branch, a tag or a commit id; main~2 is two commits "
    "before main, and main^2 is the second parent of a merge.",
    "Any server with the API of lakeFS is served. lakectl is the client of lakeFS: its file "
    "and variables are read, and lakefs:// may stand before addresses, as it does there. In cp it "
    "must, because a side without it is a file.",
)
_STEPS_AND_CODES: Final = """\
First steps:
  # Every command needs pip install 'graveler[cli]', and serve 'graveler[cli,server]'.
  graveler serve --store DIR                     # in another terminal; prints a token
  graveler login http://127.0.0.1:8000 --setup   # or: graveler login URL, of a known server
  graveler repo create lake                      # on S3: repo create lake s3://BUCKET/lake
  graveler branch create lake/dev
  graveler upload FILE lake/dev/
  graveler commit lake/dev -m "Add a file"
  graveler merge lake/dev main

Exit codes (any failure of serve, gateway, demo and events connect is 1, wrong usage 2):
  0 done; 1 failed, or the answer is no; 2 wrong usage; 3 does not exist; 4 not allowed;
  5 conflict; 6 not possible now, may be repeated; 7 the outcome of a write is unknown;
  8 some of several failed; 130 interrupted
"""
COLORS: Final = ("auto", "always", "never")
OPTIONS: Final = (
    ClientOption(("--json",), "print the objects of the API as JSON"),
    ClientOption(("--jsonl",), "print a JSON object a line, as they come"),
    ClientOption(("--profile",), "the profile to use (GRAVELER_PROFILE)", "NAME"),
    ClientOption(("--server",), "the server, instead of the profile's", "URL"),
    ClientOption(("--access-key-id",), "the access key; needs --secret-stdin", "ID"),
    ClientOption(("--secret-stdin",), "read the secret from the standard input"),
    ClientOption(("--config", "-c"), "lakectl's file (~/.lakectl.yaml)", "FILE"),
    ClientOption(("--base-uri",), "put this before addresses", "TEXT"),
    ClientOption(("--color",), "colours: auto, always or never", f"[{'|'.join(COLORS)}]"),
    ClientOption(("--utc",), "print times in UTC"),
    ClientOption(("--no-input",), "never ask; fail instead"),
    ClientOption(("--quiet", "-q"), "print results only"),
    ClientOption(("--verbose", "-v"), "print every request on stderr"),
)
VERSION: Final = ClientOption(("--version",), "print the version")
_HELP: Final = ClientOption(("-h", "--help"), "print this help")
HELP_NAMES: Final = _HELP.names
_WIDTH_MIN, _WIDTH_DEFAULT, WIDTH_MAX = 50, 80, 100


def is_asked(words: Sequence[str]) -> bool:
    """Whether a command line asks for this help, and for nothing else."""
    return len(words) == 1 and (words[0] in HELP_NAMES or words[0] == "help")


def extras_of(words: Sequence[str]) -> str:
    """The extras of the package that the command of a line needs, as `pip` takes them."""
    command = next((word for word in words if word in COMMANDS), "")
    return _EXTRAS.get(command, "cli")


def text(width: int = 0) -> str:
    """The help.  `width`: of its lines, in characters; 0: what fits on the terminal."""
    width = width or _terminal_width()
    lines = ["Usage: graveler [OPTIONS] COMMAND [ARGS]...", ""]
    for paragraph in _ABOUT:
        lines += [*_wrapped(paragraph, width), ""]
    sections: dict[str, list[tuple[str, str]]] = {}
    for name, entry in COMMANDS.items():
        if entry.section:
            sections.setdefault(entry.section, []).append((name, entry.help))
    column = max(len(name) for rows in sections.values() for name, _ in rows)
    for title, rows in sections.items():
        lines += [f"{title}:", *_rows(rows, column, width), ""]
    options = [(_usage(option), option.help) for option in (VERSION, *OPTIONS, _HELP)]
    column = max(len(usage) for usage, _ in options)
    lines += [f"{_OPTIONS_TITLE}:", *_rows(options, column, width), ""]
    lines += ["  `graveler COMMAND --help` shows options and examples.", ""]
    lines += [f"  {line}".rstrip() for line in _STEPS_AND_CODES.splitlines()]
    return "\n".join(lines)


def _usage(option: ClientOption) -> str:
    names = ", ".join(sorted(option.names, key=len))
    return f"{names} {option.metavar}".rstrip()


def _rows(rows: Sequence[tuple[str, str]], column: int, width: int) -> Iterator[str]:
    indent = " " * (column + 4)
    for name, help in rows:
        yield from _wrapped(help, width, f"  {name:<{column}}  ", indent)


def _wrapped(text: str, width: int, first: str = "  ", rest: str = "  ") -> list[str]:
    wrapper = TextWrapper(
        width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )
    return wrapper.wrap(text)


def _terminal_width() -> int:
    """As `shutil.get_terminal_size`, whose module imports those of compressed files."""
    columns = environment().get("COLUMNS", "")
    width = int(columns) if columns.isdecimal() else 0
    if not width and sys.__stdout__ is not None:
        with suppress(ValueError, OSError):  # it is closed, or no terminal
            width = os.get_terminal_size(sys.__stdout__.fileno()).columns
    return max(min(width or _WIDTH_DEFAULT, WIDTH_MAX) - 2, _WIDTH_MIN)
