"""What a repository holds from its creation: files, as its second commit.

    bytes (side by side)  ─►  one metarange  ─►  the commit; the caller names it by the branch

All of it happens before the repository's record: a repository has all of its initial files, or it
is not there.  A crash leaves objects in a namespace that nobody reads.  For repository.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from graveler.committed import writer
from graveler.engine.commits.records import lookup
from graveler.engine.objects.objects import Upload, stored
from graveler.engine.ports import Ports, keyspace
from graveler.identity import commit_id
from graveler.ids import CommitId, parse_path
from graveler.records import Commit, Record, Repository
from graveler.refs.graph import commits, graph
from graveler.wire import encode_entry


class InitialFile(NamedTuple):
    """One file: where it is in the repository, what it holds, of which type."""

    path: str
    body: bytes
    content_type: str


@dataclass(frozen=True, slots=True)
class InitialContent:
    """Files with different paths, and what their commit says."""

    files: Sequence[InitialFile]
    committer: str
    message: str


def commit(ports: Ports, repo: Repository, parent: CommitId, content: InitialContent) -> CommitId:
    """Store the files and a commit of them on `parent`, which holds nothing.

    Errors: `Invalid` for a path, those of the stores.  Cost: one put a file, side by side; those of
    a metarange of so many rows; 1 KV request.
    """

    def put(file: InitialFile) -> Record:
        entry = stored(ports, repo, Upload((file.body,), file.content_type))
        return parse_path(file.path), encode_entry(entry)

    records = sorted(ports.fanout.map(put, content.files))
    drawn = Commit(
        committer=content.committer,
        message=content.message,
        created_ns=ports.clock.now_ns(),
        metarange=writer.write(keyspace(ports, repo), records),
        parents=(parent,),
    )
    made = graph.positioned(lookup(ports, repo), drawn)
    id = commit_id(made)
    commits.put(ports.kv, repo, id, made, ports.ids.stamp())
    return id
