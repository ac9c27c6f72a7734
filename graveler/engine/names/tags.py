"""Tags: names of commits that never move; create, get, list, delete.

The record of a deleted tag stays for at least a day, so that a late duplicate of the request that
created it, or of an earlier deletion, fails.
"""

from graveler.engine.commits.heads import check_kept, committed
from graveler.engine.hooks import (
    CREATE_TAG,
    DELETE_TAG,
    NOTHING_PENDING,
    HookEvent,
    Pending,
)
from graveler.engine.names.branches import PageQuery
from graveler.engine.ports import OpenRepository, check_writable, operation_deadline
from graveler.errors import AlreadyExists, Code
from graveler.ids import NO_COMMIT, CommitId, TagId, parse_tag_id
from graveler.refs.gc import unreachable
from graveler.refs.names import tags
from graveler.refs.names.resolve import holders


def create_tag(repo: OpenRepository, name: str, ref: str, *, force: bool = False) -> CommitId:
    """Create a tag for the commit that `ref` means.  Atomic.

    Errors: `AlreadyExists` (a tag, branch or commit has the name), `NotFound`, `Gone` (the commit
    has expired), `HookFailed`, `Invalid`, `Refused`, `OutcomeUnknown`.
    Cost: 2 KV requests, and the resolution of `ref`.
    """
    tag = parse_tag_id(name)
    check_writable(repo.record, force)
    holding = holders(repo.kv, repo.record, tag)
    if holding.live_tag:
        raise AlreadyExists("tag already exists: not unique", Code.TAG_EXISTS, tag=tag)
    if holding.live_branch or holding.commit:
        holder = "branch" if holding.live_branch else "commit"
        raise AlreadyExists(
            f"{holder} name {tag}: conflict found", Code.NAME_TAKEN, holder=holder, name=tag
        )
    commit_id = committed(repo, ref).commit
    check_kept(repo, commit_id)
    pending = _run_gate_hooks(repo, CREATE_TAG, tag, commit_id)
    tags.create(repo.kv, repo.record, tag, commit_id, repo.ids, holding.tag)
    repo.hooks.landed(repo, pending)
    return commit_id


def _run_gate_hooks(repo: OpenRepository, kind: str, tag: TagId, commit: CommitId) -> Pending:
    """Run the hooks before the write.  The action files are those of the tag's commit."""
    event = HookEvent(kind, decides=commit, commit=commit, tag=tag)
    return repo.hooks.before(repo, event, operation_deadline(repo))


def get_tag(repo: OpenRepository, name: str) -> CommitId:
    """The commit of the tag.  `NotFound`, `Invalid`."""
    return tags.get(repo.kv, repo.record, parse_tag_id(name)).commit


def delete_tag(repo: OpenRepository, name: str, *, force: bool = False) -> None:
    """Delete the tag; the commit stays.  Atomic.

    Errors: `NotFound`, `HookFailed`, `Refused`, `OutcomeUnknown`.  Cost: 3 KV requests.
    """
    tag = parse_tag_id(name)
    check_writable(repo.record, force)
    gated, pending = NO_COMMIT, NOTHING_PENDING  # the commit that passed the hooks

    def gate(commit: CommitId) -> None:
        nonlocal gated, pending
        if commit != gated:
            pending = _run_gate_hooks(repo, DELETE_TAG, tag, commit)
            gated = commit
        unreachable.forget(repo.kv, repo.record, [commit])

    tags.delete(repo.kv, repo.record, tag, repo.ids, repo.clock.now_ns(), gate)
    repo.hooks.landed(repo, pending)


def list_tags(
    repo: OpenRepository, page: PageQuery
) -> tuple[tuple[tuple[TagId, CommitId], ...], bool]:
    """One page of tags by name, and whether more follow."""
    named_tags, more = tags.list_page(repo.kv, repo.record, page.prefix, page.after, page.amount)
    return tuple((named.id, named.tag.commit) for named in named_tags), more
