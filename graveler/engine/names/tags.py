"""Tags: names of commits that never move; create, get, list, delete.

The record of a deleted tag stays for at least a day, so that a late duplicate of the request that
created it, or of an earlier deletion, fails.
"""

from graveler.engine.commits.records import check_kept, resolved
from graveler.engine.names.branches import PageQuery
from graveler.engine.ports import Ports, check_writable
from graveler.errors import AlreadyExists, Code
from graveler.ids import CommitId, TagId, parse_tag_id
from graveler.records import Repository
from graveler.refs.names import tags
from graveler.refs.names.resolve import holders


def create_tag(
    ports: Ports, repo: Repository, name: str, ref: str, *, force: bool = False
) -> CommitId:
    """Create a tag for the commit that `ref` means.  Atomic.

    Errors: `AlreadyExists` (a tag, branch or commit has the name), `NotFound`, `Gone` (the commit
    has expired), `Invalid`, `Refused`, `OutcomeUnknown`.
    Cost: 2 KV requests, and the resolution of `ref`.
    """
    tag = parse_tag_id(name)
    check_writable(repo, force)
    there = holders(ports.kv, repo, tag)
    if there.live_tag:
        raise AlreadyExists("tag already exists: not unique", Code.TAG_EXISTS, tag=tag)
    if there.live_branch or there.commit:
        holder = "branch" if there.live_branch else "commit"
        raise AlreadyExists(
            f"{holder} name {tag}: conflict found", Code.NAME_TAKEN, holder=holder, name=tag
        )
    commit_id = resolved(ports, repo, ref).commit
    check_kept(ports, repo, commit_id)
    tags.create(ports.kv, repo, tag, commit_id, ports.ids, there.tag)
    return commit_id


def get_tag(ports: Ports, repo: Repository, name: str) -> CommitId:
    """The commit of the tag.  `NotFound`, `Invalid`."""
    return tags.get(ports.kv, repo, parse_tag_id(name)).commit


def delete_tag(ports: Ports, repo: Repository, name: str, *, force: bool = False) -> None:
    """Delete the tag; the commit stays.  Atomic.

    Errors: `NotFound`, `Refused`, `OutcomeUnknown`.  Cost: 2 KV requests.
    """
    tag = parse_tag_id(name)
    check_writable(repo, force)
    tags.delete(ports.kv, repo, tag, ports.ids, ports.clock.now_ns())


def list_tags(
    ports: Ports, repo: Repository, page: PageQuery
) -> tuple[tuple[tuple[TagId, CommitId], ...], bool]:
    """One page of tags by name, and whether more follow."""
    found, more = tags.list_page(ports.kv, repo, page.prefix, page.after, page.amount)
    return tuple((named.id, named.tag.commit) for named in found), more
