"""The actions of a commit: the files directly in `_lakefs_actions/` of its content, parsed.

Every file there is an action file, whatever its name: a gate that is misspelled must not stay open.
Files in folders below it are none.

The bytes of an action file lie in the namespace of the repository.  A file that was linked or
imported from elsewhere is invalid: whoever writes there could change the gate without a commit.

A commit without such files costs no KV request, and no object is read if the range that would hold
them is known: the answer depends on that range alone, and ranges never change.  Used by gate.py.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Final, Literal

from graveler import limits
from graveler.committed import reader
from graveler.engine.commits.heads import commit_of
from graveler.engine.hooks import ACTIONS_FOLDER as FOLDER
from graveler.engine.objects import read
from graveler.engine.ports import OpenRepository, keyspace
from graveler.errors import Gone, Invalid, NotFound, Refused
from graveler.hooks.actions import Action, parse
from graveler.ids import CommitId, RepositoryUid
from graveler.records import ABSENT, Absent, Record
from graveler.streams import successor
from graveler.wire import recent_entry

_PREFIX: Final = FOLDER.encode()
_BEYOND: Final = successor(_PREFIX)
_KNOWN_COUNT_MAX: Final = 1_000

_Key = tuple[RepositoryUid, str]


class KnownActions:
    """The actions that were found in ranges and metaranges, which never change.  Bounded.  Threads
    may share it."""

    def __init__(self) -> None:
        self._known: dict[_Key, tuple[Action, ...]] = {}

    def get(self, key: _Key) -> tuple[Action, ...] | Literal[Absent.ABSENT]:
        """What was put under this key."""
        return self._known.get(key, ABSENT)

    def put(self, key: _Key, actions: tuple[Action, ...]) -> None:
        """Keep it, for a while."""
        if len(self._known) >= _KNOWN_COUNT_MAX:
            self._known = {}
        self._known[key] = actions


def actions_of(repo: OpenRepository, known: KnownActions, commit: CommitId) -> tuple[Action, ...]:
    """The actions of a commit, by the name of their files.

    Raises `Invalid` if a file is invalid, or there are too many: then nobody can tell which hooks
    have to run.  Errors: `Gone`, `Unavailable`.
    Cost: no KV request for a cached commit.  If nothing is known, one look-up in the metarange and
    in one range, and one read for each file.
    """
    space, metarange = keyspace(repo), commit_of(repo, commit).metarange
    first = space.first_from(metarange, _PREFIX)
    if first is ABSENT or first.min_key >= _BEYOND:
        return ()
    is_whole = first.max_key >= _BEYOND  # no other range has files of the folder
    key = repo.record.uid, str(first.id if is_whole else metarange)
    actions = known.get(key)
    if actions is ABSENT:
        records = reader.scan(space, metarange, b"", _PREFIX)
        actions = _parsed(repo, list(islice(records, limits.action_files_max + 1)))
        known.put(key, actions)
    return actions


def _parsed(repo: OpenRepository, records: Sequence[Record]) -> tuple[Action, ...]:
    if len(records) > limits.action_files_max:
        raise Invalid(f"{FOLDER} must have at most {limits.action_files_max} objects")
    actions = []
    for key, value in records:
        name = key[len(_PREFIX) :].decode()
        if name and "/" not in name:  # some clients mark a folder by an empty object of its name
            actions.append(_action(repo, name, value))
    if sum(len(action.hooks) for action in actions) > limits.action_hooks_max:
        raise Invalid(f"{FOLDER} must have at most {limits.action_hooks_max} hooks")
    return tuple(actions)


def _action(repo: OpenRepository, name: str, value: bytes) -> Action:
    """The action of a file.  An error names the file and the remedy."""
    try:
        return parse(name, _text(repo, value))
    except (Invalid, Gone, Refused) as error:
        raise Invalid(
            f"action file invalid: file={FOLDER}{name}: {error}; every file directly in {FOLDER} "
            "is read as one: upload a correct one, or delete it, and commit; graveler reset "
            f"{repo.id}/BRANCH/{FOLDER}{name} undoes an uncommitted change"
        ) from error


def _text(repo: OpenRepository, value: bytes) -> bytes:
    entry = recent_entry(value)
    length_max = limits.action_file_length_bytes_max
    if entry.size > length_max:
        raise Invalid(f"it must have at most {length_max} bytes: size={entry.size}")
    if not read.lies_inside(repo.record, entry):
        raise Invalid(
            "its bytes are outside the repository, where they can change without a commit"
        )
    try:
        text = repo.blocks.read(read.address_of(repo, entry), 0, length_max + 1)
    except NotFound as error:
        raise Gone("it is not in the object store") from error
    if len(text) != entry.size:
        raise Invalid("its bytes were replaced after its commit")
    return text
