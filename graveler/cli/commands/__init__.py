"""The table of all commands: a module each, or several to a module.

It imports none of them: `graveler log` loads one module, and `graveler --help` loads Click alone.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple


class Entry(NamedTuple):
    """Where a command is, as MODULE:NAME, and its help line.  Without a section it is hidden."""

    place: str
    help: str
    section: str = ""


_REFS: Final = "Repositories, branches and tags"
_HISTORY: Final = "Changes and history"
_OBJECTS: Final = "Objects"
_SETUP: Final = "This client"
_SERVER: Final = "Administer a server"
_OPERATE: Final = "Run and tend a store"
_LAKECTL: Final = "the same by the name of lakectl"

COMMANDS: Final[Mapping[str, Entry]] = {
    "repo": Entry("commands.repo:repo", "create, list and delete repositories", _REFS),
    "branch": Entry("commands.branch:branch", "create, list and delete branches", _REFS),
    "tag": Entry("commands.tag:tag", "create, list and delete tags", _REFS),
    "branch-protect": Entry(
        "commands.repo:branch_protect", "protect branches from direct changes", _REFS
    ),
    "status": Entry("commands.diff:status", "the uncommitted changes of a branch", _HISTORY),
    "diff": Entry("commands.diff:diff", "what is uncommitted, or differs between refs", _HISTORY),
    "commit": Entry("commands.commit:commit", "commit the changes of a branch", _HISTORY),
    "log": Entry("commands.log:log", "the commits that a ref leads to", _HISTORY),
    "show": Entry("commands.log:show", "a commit, and what it changed", _HISTORY),
    "merge": Entry("commands.commit:merge", "merge one branch into another", _HISTORY),
    "pr": Entry("commands.pr:pr", "pull requests: ask for merges, and make them", _HISTORY),
    "merge-base": Entry("commands.commit:merge_base", "the common ancestor of two refs", _HISTORY),
    "find-merge-base": Entry("commands.commit:merge_base", _LAKECTL),
    "revert": Entry("commands.commit:revert", "undo a commit with a new one", _HISTORY),
    "cherry-pick": Entry("commands.commit:cherry_pick", "repeat a commit on a branch", _HISTORY),
    "restore": Entry("commands.commit:restore", "commit the content of an old commit", _HISTORY),
    "undo": Entry("commands.undo:undo", "undo the last reset, merge or deletion", _HISTORY),
    "annotate": Entry(
        "commands.log:annotate", "the commit that last changed each object", _HISTORY
    ),
    "blame": Entry("commands.log:annotate", "the same by the name of git"),
    "bisect": Entry("commands.bisect:bisect", "find the commit that broke data", _HISTORY),
    "watch": Entry("commands.watch:watch", "commits and changes, as they come", _HISTORY),
    "reset": Entry(
        "commands.branch:reset", "discard uncommitted changes, or move a branch", _HISTORY
    ),
    "ls": Entry("commands.objects:ls", "list objects", _OBJECTS),
    "stat": Entry("commands.objects:stat", "one object", _OBJECTS),
    "cat": Entry("commands.objects:cat", "print the content of objects", _OBJECTS),
    "upload": Entry("commands.transfer:upload", "upload files to a branch", _OBJECTS),
    "download": Entry("commands.transfer:download", "download objects", _OBJECTS),
    "cp": Entry("commands.transfer:cp", "copy objects", _OBJECTS),
    "mv": Entry("commands.transfer:mv", "move objects within a branch", _OBJECTS),
    "rm": Entry("commands.objects:rm", "delete objects on a branch", _OBJECTS),
    "presign": Entry(
        "commands.objects:presign", "a URL with which anybody can read an object", _OBJECTS
    ),
    "import": Entry(
        "commands.imports:import_command", "objects of a storage, without a copy", _OBJECTS
    ),
    "local": Entry("commands.local:local", "a folder in step with a branch", _OBJECTS),
    "fs": Entry("commands.lakectl:fs", _LAKECTL),
    "cat-hook-output": Entry("commands.actions:cat_hook_output", _LAKECTL),
    "identity": Entry("commands.account:whoami", _LAKECTL),
    "gc get-config": Entry("commands.lakectl:gc_get_config", _LAKECTL),
    "gc set-config": Entry("commands.lakectl:gc_set_config", _LAKECTL),
    "gc delete-config": Entry("commands.lakectl:gc_delete_config", _LAKECTL),
    "plugin list": Entry("commands.lakectl:plugin_list", "programs graveler-NAME on PATH"),
    "usage summary": Entry("commands.server:usage", _LAKECTL),
    "api": Entry("commands.server:api", "any request to the API", _SETUP),
    "open": Entry("commands.server:open_command", "show an address in the browser", _SETUP),
    "login": Entry("commands.account:login", "try credentials, and keep them in a profile", _SETUP),
    "logout": Entry("commands.account:logout", "forget a profile", _SETUP),
    "whoami": Entry("commands.account:whoami", "show the user and the server", _SETUP),
    "config": Entry("commands.config:config", "list, show and change profiles", _SETUP),
    "doctor": Entry("commands.doctor:doctor", "find out why commands fail, and the remedy", _SETUP),
    "completion": Entry("commands.config:completion", "complete commands and addresses", _SETUP),
    "user": Entry("commands.users:user", "users, and their access keys", _SERVER),
    "group": Entry("commands.users:groups_command", "groups: users with the same rights", _SERVER),
    "policy": Entry("commands.policy:policy", "policies: lists of rights", _SERVER),
    "auth": Entry("commands.lakectl:auth", "users and rights by the names of lakectl"),
    "may-i": Entry("commands.policy:may_i", "whether you have a right", _SERVER),
    "usage": Entry("commands.server:usage", "how many requests were answered", _SERVER),
    "jobs": Entry("commands.jobs:jobs", "what the server does in the background", _SERVER),
    "refs": Entry("commands.refs:refs", "dump branches and tags, and restore them", _SERVER),
    "refs-dump": Entry("commands.refs:refs_dump", _LAKECTL),
    "refs-restore": Entry("commands.refs:refs_restore", _LAKECTL),
    "actions": Entry(
        "commands.actions:actions", "runs of hooks, and checks of action files", _SERVER
    ),
    "audit": Entry("commands.server:audit", "who changed what, or was denied", _SERVER),
    "serve": Entry("commands.serve:serve", "serve an embedded store over HTTP", _OPERATE),
    "gateway": Entry("commands.serve:gateway", "serve S3 clients of a deployment on AWS", _OPERATE),
    "demo": Entry("commands.serve:demo", "serve a sample lake", _OPERATE),
    "verify": Entry("commands.store:verify", "check everything in a store", _OPERATE),
    "gc": Entry("commands.gc:gc_command", "find unused files, and delete them", _OPERATE),
    "retention": Entry("commands.gc:retention_command", "how long commits are kept", _OPERATE),
    "credentials": Entry(
        "commands.store:credentials", "new credentials for the administrator, new keys", _OPERATE
    ),
    "events": Entry("commands.events:events", "commit objects that arrive in a bucket", _OPERATE),
    "storage": Entry("commands.storage:storage", "set up a bucket of your own", _OPERATE),
}
# The extras of the package that a command needs; all others need `cli`.
_EXTRAS: Final[Mapping[str, str]] = {
    "serve": "cli,server",
    "demo": "cli,demo,server",
    "gateway": "cli,gateway",
}


def extras_of(words: Sequence[str]) -> str:
    """The extras of the package that the command of a line needs, as `pip` takes them."""
    command = next((word for word in words if word in COMMANDS), "")
    return _EXTRAS.get(command, "cli")
