"""Initial content: the files that a repository contains from its creation, as its second commit.

    bytes (fan-out)  ─►  one metarange  ─►  the commit; the caller puts the first branch on it

All of this happens before the repository's record is stored.  So a repository has all of its
initial files, or it does not exist.  A crash leaves objects in a namespace that nothing reads.
Used by repository.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from graveler.committed import writer
from graveler.engine.commits.heads import lookup
from graveler.engine.objects.write import Upload, stored
from graveler.engine.ports import OpenRepository, keyspace
from graveler.identity import commit_id
from graveler.ids import CommitId, parse_path
from graveler.records import Commit, Record
from graveler.refs.graph import commits, graph
from graveler.wire import encode_entry


class InitialFile(NamedTuple):
    """One file: its path in the repository, its bytes, its content type."""

    path: str
    body: bytes
    content_type: str


@dataclass(frozen=True, slots=True)
class InitialContent:
    """Files with different paths, and the committer and message of their commit."""

    files: Sequence[InitialFile]
    committer: str
    message: str


def commit(repo: OpenRepository, parent: CommitId, content: InitialContent) -> CommitId:
    """Store the files, and a commit of them whose parent is the empty commit `parent`.

    Errors: `Invalid` for a path, those of the stores.
    Cost: 1 put for each file, with a fan-out; the writes of one metarange; 1 KV request, and 1 if
    `parent` is not cached.
    """

    def put(file: InitialFile) -> Record:
        entry = stored(repo, Upload((file.body,), file.content_type))
        return parse_path(file.path), encode_entry(entry)

    records = sorted(repo.fanout.map(put, content.files))
    drawn = Commit(
        committer=content.committer,
        message=content.message,
        created_ns=repo.clock.now_ns(),
        metarange=writer.write(keyspace(repo), records),
        parents=(parent,),
    )
    first = graph.positioned(lookup(repo), drawn)
    id = commit_id(first)
    commits.put(repo.kv, repo.record, id, first, repo.ids.stamp())
    return id
