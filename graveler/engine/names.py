"""Branches, tags and refs: create, get, list and delete.

The record of a deleted branch or tag stays for at least a day, so that a late duplicate of the
request that created it fails; then the janitor removes it.  A deletion of a branch also drops
writes that are acknowledged while it runs.
"""

from typing import Literal, NamedTuple

from graveler.core import limits
from graveler.core.errors import AlreadyExists, Code, Contended, NotFound, OutcomeUnknown, Refused
from graveler.core.ids import (
    NO_COMMIT,
    BranchId,
    CommitId,
    StagingToken,
    TagId,
    parse_branch_id,
    parse_tag_id,
)
from graveler.core.records import ABSENT, Absent, BranchState, Versioned
from graveler.engine import protection
from graveler.engine.commits.diff import is_dirty
from graveler.engine.commits.heads import (
    SwapOutcome,
    check_kept,
    committed,
    first_record,
    fresh,
    given_up,
    new_token,
    resolved,
    send,
    try_swap,
)
from graveler.engine.hooks import (
    CREATE_BRANCH,
    CREATE_TAG,
    DELETE_BRANCH,
    DELETE_TAG,
    NOTHING_PENDING,
    HookEvent,
    Pending,
)
from graveler.engine.ports import (
    OpenRepository,
    UnconfirmedWrite,
    check_writable,
    operation_deadline,
)
from graveler.engine.pulls import close_all
from graveler.kv.store import Declined
from graveler.refs import branches, cleanups, garbage, tags
from graveler.refs.branches import NamedBranch as BranchView
from graveler.refs.resolve import Holders, Kind, holders, parse


class PageQuery(NamedTuple):
    """One page: at most `amount` names that begin with `prefix` and sort after `after`."""

    prefix: str = ""
    after: str = ""
    amount: int = limits.page_count_default


class _Gate:
    """The hooks that run before the swap of a creation or a deletion, once for each commit."""

    def __init__(
        self, repo: OpenRepository, kind: str, branch: BranchId, source_ref: str = ""
    ) -> None:
        self._repo = repo
        self._event = HookEvent(kind, NO_COMMIT, branch=branch, source_ref=source_ref)
        self._passed = NO_COMMIT
        self._origin = ""
        self.pending = NOTHING_PENDING  # what is left to do after the swap

    def pass_with(self, commit: CommitId, origin: str) -> str:
        """Run the hooks for the branch that begins with the token `origin`.  The action files are
        those of the branch's commit."""
        if commit != self._passed:
            event = self._event._replace(decides=commit, commit=commit, origin=origin)
            until = operation_deadline(self._repo)
            self.pending = self._repo.hooks.before(self._repo, event, until)
            self._passed, self._origin = commit, origin
        return self._origin


def create_branch(
    repo: OpenRepository, name: str, source: str, *, hidden: bool = False, force: bool = False
) -> CommitId:
    """Create a branch whose head is the commit that `source` means.  Atomic.

    Uncommitted changes of the source are not copied.
    Errors: `AlreadyExists` (a branch, tag or commit has the name), `NotFound` (no such source),
    `Gone` (the commit has expired), `HookFailed`, `Invalid`, `Refused`, `Contended`,
    `OutcomeUnknown`.
    Cost: 2 KV requests, and the resolution of `source`; for the name of a deleted branch, those of
    `pulls.requests.close_all` too.  The same again each time that others create and delete the name
    meanwhile.
    """
    branch = parse_branch_id(name)
    check_writable(repo.record, force)
    gate = _Gate(repo, CREATE_BRANCH, branch, source)
    for _ in range(limits.commit_round_count_max):
        head = _made(repo, branch, source, gate, hidden=hidden)
        if head is not ABSENT:
            return head
    raise Contended(f"branch kept being created and deleted by others; try again: {branch=!s}")


def _made(
    repo: OpenRepository, branch: BranchId, source: str, gate: _Gate, *, hidden: bool
) -> CommitId | Literal[Absent.ABSENT]:
    """One attempt of a creation; ABSENT: the record of a deleted branch changed meanwhile, so it
    made nothing."""
    holding = holders(repo.kv, repo.record, branch)
    _check_free(holding, branch)
    seen = holding.branch
    if seen is not ABSENT:  # a deletion that did not end may have left requests of the old branch
        close_all(repo, branch)
    commit_id = committed(repo, source, "source").commit
    check_kept(repo, commit_id)
    fresh_token = new_token(repo, 0)  # the load on the source predicts nothing about this branch
    token = StagingToken(gate.pass_with(commit_id, fresh_token))
    record = first_record(repo, seen, commit_id, token, hidden=hidden)
    sent = try_swap(repo, branch, seen, record)
    if isinstance(sent, Declined):
        if sent.current is not ABSENT:
            raise _exists()
        return ABSENT
    if sent is None:
        with UnconfirmedWrite("branch creation") as unconfirmed:
            unconfirmed.mark_unconfirmed()
            _check_made(repo, branch, token, record.rev - 1)
    repo.hooks.landed(repo, gate.pending)
    return commit_id


def _check_free(holding: Holders, name: BranchId) -> None:
    if holding.live_branch:
        raise _exists()
    if holding.live_tag or holding.commit:
        holder = "tag" if holding.live_tag else "commit"
        raise AlreadyExists(
            f"{holder} ID {name}: conflict found", Code.NAME_TAKEN, holder=holder, name=name
        )


def _exists() -> AlreadyExists:
    return AlreadyExists("branch already exists: not unique", Code.BRANCH_EXISTS)


def _check_made(repo: OpenRepository, branch: BranchId, token: StagingToken, rev: int) -> None:
    """After a swap that has no answer: return if the branch of this call was made."""
    now = branches.find(repo.kv, repo.record, branch)
    if now is not ABSENT and now.branch.origin == token:
        return
    if now is not ABSENT and now.branch.live and now.branch.rev == rev + 1:
        raise _exists()
    raise OutcomeUnknown(f"branch creation not confirmed; outcome unknown: branch={branch} {rev=}")


def get_branch(repo: OpenRepository, name: str) -> BranchView:
    """The live branch, read from the store now.  `NotFound`, `Invalid`.  1 KV request."""
    branch = parse_branch_id(name)
    return BranchView(branch, fresh(repo, branch).branch)


def list_branches(
    repo: OpenRepository, page: PageQuery, *, show_hidden: bool = False
) -> tuple[tuple[BranchView, ...], bool]:
    """One page of live branches by name, and whether more follow.  Hidden ones on request only."""
    return branches.list_page(
        repo.kv, repo.record, page.prefix, page.after, page.amount, show_hidden
    )


def delete_branch(repo: OpenRepository, name: str, *, force: bool = False) -> None:
    """Delete the branch and its uncommitted changes; its commits stay.  Atomic.

    Then its open pull requests are closed; after a crash in between, the same call, a creation of
    the name or the janitor closes them.
    Errors: `NotFound`, `Refused` (the default branch, a protected one, a read-only repository),
    `HookFailed`, `Contended`, `OutcomeUnknown`.  Cost: 4 KV requests, those of
    `pulls.requests.close_all`, and one for the rules if no record of the repository is cached.
    """
    branch = parse_branch_id(name)
    check_writable(repo.record, force)
    if branch == repo.record.default_branch:
        raise Refused(
            f"cannot delete the default branch: branch={branch}",
            Code.DEFAULT_BRANCH,
            branch=branch,
        )
    grace_ns = repo.settings.token_grace_seconds * limits.SECOND_NS
    tried, last, is_unknown, origin = False, b"", False, ""
    is_successor = False  # a live record is that of the next branch of this name
    gate = _Gate(repo, DELETE_BRANCH, branch)
    with UnconfirmedWrite("branch deletion") as unconfirmed:
        for _ in range(limits.commit_round_count_max):
            seen = branches.find(repo.kv, repo.record, branch)
            if tried and _is_gone(seen, origin):
                # It existed when this call began: this call or another one deleted it.
                is_successor = isinstance(seen, Versioned) and seen.branch.live
                break
            if seen is ABSENT or not seen.branch.live:
                if seen is not ABSENT:  # an earlier call may have died before it closed them
                    close_all(repo, branch)
                raise NotFound(f"branch '{branch}' not found", Code.BRANCH_NOT_FOUND, branch=branch)
            record, is_pending = seen.branch, seen.version == last
            _check_unprotected(repo, branch, is_pending=is_pending)
            gate.pass_with(record.commit, record.origin)
            now_ns = repo.clock.now_ns()
            dropped = (*record.sealed, record.staging)
            repo.kv.set_many(
                cleanups.cleanup_writes(repo.record, branch, dropped, now_ns + grace_ns, repo.ids)
            )
            garbage.forget_unreachable(repo.kv, repo.record, [record.commit])
            gone = record._replace(rev=record.rev + 1, state=BranchState.DELETED, changed_ns=now_ns)
            _check_unprotected(repo, branch, is_pending=is_pending)
            tried, last, origin = True, seen.version, record.origin
            sent = send(repo, branch, seen, gone)
            repo.cache.forget_branch(repo.record, branch)
            if sent is SwapOutcome.LANDED:
                break
            is_unknown = is_unknown or sent is SwapOutcome.UNKNOWN
            unconfirmed.note(is_unconfirmed=is_unknown)
        else:
            raise given_up(branch, "branch deletion", is_unknown=is_unknown)
    repo.hooks.landed(repo, gate.pending)
    if not is_successor:  # its creation has closed the requests of this one
        close_all(repo, branch)


def _is_gone(now: Versioned | Literal[Absent.ABSENT], origin: str) -> bool:
    """Whether the branch that began with the token `origin` is deleted.  A live one with another
    origin was created since, under the same name."""
    return now is ABSENT or not now.branch.live or now.branch.origin != origin


def _check_unprotected(repo: OpenRepository, branch: BranchId, *, is_pending: bool) -> None:
    """Raises `Refused` if a rule protects the branch."""
    doubt = f"branch deletion not confirmed: branch={branch}"
    with protection.in_doubt(doubt, is_pending=is_pending):
        protection.check_deletion(repo, branch)


__all__ = [
    "BranchView",
    "PageQuery",
    "create_branch",
    "delete_branch",
    "get_branch",
    "list_branches",
]


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
        garbage.forget_unreachable(repo.kv, repo.record, [commit])

    tags.delete(repo.kv, repo.record, tag, repo.ids, repo.clock.now_ns(), gate)
    repo.hooks.landed(repo, pending)


def list_tags(
    repo: OpenRepository, page: PageQuery
) -> tuple[tuple[tuple[TagId, CommitId], ...], bool]:
    """One page of tags by name, and whether more follow."""
    named_tags, more = tags.list_page(repo.kv, repo.record, page.prefix, page.after, page.amount)
    return tuple((named.id, named.tag.commit) for named in named_tags), more


class RefView(NamedTuple):
    """What an expression names.

    - `kind`: `branch` for a branch with its uncommitted changes, `tag` for the name of a tag;
      anything with another modifier is a `commit`.
    - `branch`: the branch with which the expression begins; empty if it begins with something else.
    - `dirty`: the expression names a branch that has uncommitted changes.
    """

    kind: Kind
    commit: CommitId
    branch: BranchId
    dirty: bool


def get_ref(repo: OpenRepository, text: str) -> RefView:
    """What the expression `text` names now.

    Errors: `NotFound`, `Invalid`, `Unavailable` after the deadline.
    Cost: that of the resolution (1 KV request for a branch, 2 for a tag; `refs/resolve.py`),
    and for a branch that of `is_dirty`.
    """
    where = resolved(repo, text)
    if where.staged and where.branch is not ABSENT:
        return RefView("branch", where.commit, where.branch_id, is_dirty(repo, where.branch))
    is_plain = not parse(text).modifiers
    kind: Kind = where.kind if is_plain else "commit"
    return RefView(kind, where.commit, where.branch_id, False)
