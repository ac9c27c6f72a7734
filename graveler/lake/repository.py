"""Repositories: their branches, tags, commits, pull requests, jobs, rules and settings."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from graveler.core.errors import Conflict, Internal, NotFound, PreconditionFailed
from graveler.lake import show
from graveler.lake.branch import Branch
from graveler.lake.errors import Raising, creating
from graveler.lake.ref import Commit, N, Ref, Tag, name_of, short, told
from graveler.lake.session import NOT_GRAVELER, below, error_of, found, having, with_query
from graveler.lake.show import Listing

if TYPE_CHECKING:
    from graveler.lake.event_rules import EventRules
    from graveler.lake.job import Collection, Job, Manifest, RefsTask
    from graveler.lake.lake import Lake
    from graveler.lake.pull_requests import PullRequests
    from graveler.lake.records import HookRun, RetentionRules, Run
    from graveler.lake.snapshots import Snapshot

_JOBS_PAGE: Final = 100  # servers refuse longer pages
_RULES: Final = ("settings", "gc_rules")
_PROTECTION: Final = ("settings", "branch_protection")
_ID_SHOWN: Final = 12
_LOG_BYTES_MAX: Final = 64 << 20  # of one hook


class Repository(Raising):
    """A repository.  Making one sends no request."""

    def __init__(self, lake: "Lake", name: str) -> None:
        self.lake, self.name = lake, name

    def _path(self, *parts: str) -> str:
        """A path of the API below this repository."""
        return below("repositories", self.name, *parts)

    def _call(self, method: str, *parts: str, body: Any = None) -> Any:
        """Send a call of the API about this repository."""
        return self.lake.session.call(method, self._path(*parts), body)

    @cached_property
    def pull_requests(self) -> "PullRequests":
        """The pull requests."""
        from graveler.lake.pull_requests import PullRequests

        return PullRequests(self)

    @cached_property
    def events(self) -> "EventRules":
        """The rules for objects that arrive in buckets."""
        from graveler.lake.event_rules import EventRules

        return EventRules(self)

    # ---- refs --------------------------------------------------------------------------------

    def branch(self, name: str) -> Branch:
        """A branch.  Sends no request; it need not exist yet."""
        return Branch(self, name)

    def tag(self, name: str) -> Tag:
        """A tag.  Sends no request."""
        return Tag(self, name)

    def commit(self, id: str) -> Commit:
        """A commit, by its id or the beginning of it.  Sends no request."""
        return Commit(self, id)

    def ref(self, expression: str) -> Ref:
        """Whatever the text means: a name, an id, or one with `~` or `^`.  Sends no request."""
        return Ref(self, expression)

    def __getitem__(self, name: str) -> Branch | Tag | Commit:
        """The branch, tag or commit of this name.  Raises `NotFound`.  One request."""
        answer = having(self._call("GET", "refs", name), "type")
        if answer["type"] == "branch":
            return Branch(self, name)
        return Tag(self, name) if answer["type"] == "tag" else Commit(self, answer["commit_id"])

    @property
    def default_branch(self) -> Branch:
        """The branch that the repository began with.  One request, once."""
        return Branch(self, self.answer["default_branch"])

    def branches(
        self, prefix: str = "", *, after: str = "", limit: int | None = None, hidden: bool = False
    ) -> Listing[Branch]:
        """The branches, sorted by name.  `hidden`: hidden ones too.  A request for each 1,000."""
        path = with_query(self._path("branches"), show_hidden=hidden)
        return self._refs(Branch, path, prefix, after, limit)

    def tags(self, prefix: str = "", *, after: str = "", limit: int | None = None) -> Listing[Tag]:
        """The tags, sorted by name.  A request for each 1,000."""
        return self._refs(Tag, self._path("tags"), prefix, after, limit)

    def _refs(
        self, kind: type[N], path: str, prefix: str, after: str, limit: int | None
    ) -> Listing[N]:
        def fetch() -> Iterator[N]:
            how: dict[str, Any] = {"prefix": prefix, "after": after, "amount": limit}
            for answer in found(self.lake.session, path, "id", "commit_id", **how):
                yield told(kind(self, answer["id"]), answer)

        title = f"{kind._kind} of {self.name}"
        names = (kind._word, "commit")
        return Listing(fetch, title, names, lambda each: (each.name, short(each.head)))

    def create_branch(
        self, name: str, source: Ref | str = "", *, exist_ok: bool = False, hidden: bool = False
    ) -> Branch:
        """A new branch at `source`; without one, at the default branch.  Raises `AlreadyExists`,
        but not with `exist_ok`; the branch is then where it is.  `hidden`: lists leave it out.  One
        to three requests."""
        start = name_of(source) or self.default_branch.name
        body = {"name": name, "source": start, **({"hidden": True} if hidden else {})}
        try:
            with creating("branch", f"{self.name}/{name}"):
                commit = self._call("POST", "branches", body=body)
        except Conflict:
            if not (exist_ok and self._has_branch(name)):  # it may be a tag
                raise
            return Branch(self, name)
        if not isinstance(commit, str):
            raise Internal(NOT_GRAVELER)
        return told(Branch(self, name), {"id": name, "commit_id": commit.strip()})

    def _has_branch(self, name: str) -> bool:
        try:
            self._call("GET", "branches", name)
        except NotFound:
            return False
        return True

    def create_tag(self, name: str, ref: Ref | str) -> Tag:
        """A new tag.  Raises `AlreadyExists`.  One request."""
        with creating("tag", f"{self.name}/{name}"):
            answer = self._call("POST", "tags", body={"id": name, "ref": name_of(ref)})
        return told(Tag(self, name), having(answer, "id", "commit_id"))

    def delete_branch(self, name: Branch | str) -> None:
        """Delete a branch and what is not committed on it.  Its commits stay until a collection.
        One request."""
        self._call("DELETE", "branches", name_of(name))

    def delete_tag(self, name: Tag | str) -> None:
        """Delete a tag; its commit stays.  One request."""
        self._call("DELETE", "tags", name_of(name))

    # ---- settings ----------------------------------------------------------------------------

    @cached_property
    def answer(self) -> Mapping[str, Any]:
        """What the server says of it, as JSON: `id`, `default_branch`, `storage_namespace` and
        more.  One request, once; none if it comes from a list.  Raises `NotFound`."""
        return having(self._call("GET"), "id", "default_branch", "storage_namespace")

    def exists(self) -> bool:
        """Whether the repository exists.  One request."""
        try:
            self._call("GET")
        except NotFound:
            return False
        return True

    @property
    def namespace(self) -> str:
        """Where its objects are.  One request, once."""
        return str(self.answer["storage_namespace"])

    @property
    def metadata(self) -> Mapping[str, str]:
        """The metadata of the repository.  One request."""
        return having(self._call("GET", "metadata"))

    def set_metadata(self, pairs: Mapping[str, str]) -> None:
        """Set keys; others stay.  One request."""
        self._call("POST", "metadata", body={"metadata": dict(pairs)})

    def delete_metadata(self, *keys: str) -> None:
        """Delete keys.  One request."""
        self._call("DELETE", "metadata", body={"keys": keys})

    def protected(self) -> tuple[str, ...]:
        """The patterns of protected branches.  One request."""
        return self._protection()[0]

    def protect(self, pattern: str) -> None:
        """Protect the branches that a pattern (`release-*`) names: they change by merges alone.
        Two requests; four if somebody else changes the patterns in between, and
        `PreconditionFailed` if twice.  Raises `Conflict` if the pattern is known."""

        def added(patterns: tuple[str, ...]) -> tuple[str, ...]:
            if pattern in patterns:
                raise Conflict(f"the branches are protected already: {pattern}")
            return (*patterns, pattern)

        self._change_protection(added)

    def unprotect(self, pattern: str) -> None:
        """End a protection.  Raises `NotFound` if the pattern is not known.  Requests as
        `protect`."""

        def deleted(patterns: tuple[str, ...]) -> tuple[str, ...]:
            if pattern not in patterns:
                raise NotFound("branch protection rule not found")
            return tuple(other for other in patterns if other != pattern)

        self._change_protection(deleted)

    def _change_protection(self, change: Callable[[tuple[str, ...]], tuple[str, ...]]) -> None:
        """The patterns are replaced together, if nobody else has changed them since they were
        read; once more if somebody has."""
        for is_last in (False, True):
            patterns, tag = self._protection()
            body = [{"pattern": pattern} for pattern in change(patterns)]
            try:
                self.lake.session.call("PUT", self._path(*_PROTECTION), body, {"If-Match": tag})
                return
            except PreconditionFailed:
                if is_last:
                    raise

    def _protection(self) -> tuple[tuple[str, ...], str]:
        """The patterns, and the tag of this version of them."""
        answer = self.lake.session.answer("GET", self._path(*_PROTECTION))
        rules = answer.decoded(self.lake.session.url)
        if not isinstance(rules, list):
            raise Internal(NOT_GRAVELER)
        patterns = tuple(str(having(rule, "pattern")["pattern"]) for rule in rules)
        return patterns, answer.headers.get("ETag", "")

    def retention(self) -> "RetentionRules":
        """How many days the content of commits is kept; 0: forever, as if there are no rules.  One
        request, or two."""
        try:
            answer: Any = self._call("GET", *_RULES)
        except NotFound:  # the repository, or its rules
            self._call("GET")
            answer = {"branches": [], "default_retention_days": 0}
        having(answer, "branches", "default_retention_days")
        rules: RetentionRules = answer
        return rules

    def set_retention(self, days: int, branches: Mapping[str, int] | None = None) -> None:
        """Keep the content of commits that no branch needs for so many days, other numbers for
        some branches; 0: forever.  Of two writers the last one wins.  One request."""
        rules = [
            {"branch_id": branch, "retention_days": count}
            for branch, count in (branches or {}).items()
        ]
        body = {"branches": rules, "default_retention_days": days}
        self._call("PUT", *_RULES, body=body)

    def delete_retention(self) -> None:
        """Delete the rules: everything is kept forever then.  One request."""
        self._call("DELETE", *_RULES)

    def collect(self, *, dry_run: bool = True) -> "Collection":
        """Order a garbage collection: delete the files that nothing names any more.  By default a
        dry run, which deletes nothing.  The one that runs, if one does.  One request."""
        from graveler.lake.job import Collection

        return Collection(self, _id(self._call("POST", "gc", "runs", body={"dry_run": dry_run})))

    def undo_collection(self, run: str) -> None:
        """Make what a collection condemned usable again.  Raises `Conflict` when files were
        deleted.  One request."""
        self._call("DELETE", "gc", "runs", run)

    def delete(self, *, force: bool = False) -> None:
        """Delete the repository; its objects stay in the storage.  `force`: also a read-only one.
        One request."""
        self.lake.session.call("DELETE", with_query(self._path(), force=force))
        vars(self).pop("answer", None)

    # ---- what happens ------------------------------------------------------------------------

    def jobs(self, *, kind: str = "", state: str = "", limit: int | None = None) -> "Listing[Job]":
        """The jobs, the newest first.  A request for each 100."""
        from graveler.lake.job import job

        path = with_query(self._path("jobs"), kind=kind, state=state)

        def fetch() -> "Iterator[Job]":
            return map(job, found(self.lake.session, path, amount=limit, page_max=_JOBS_PAGE))

        names = ("job", "kind", "state", "done", "created")
        return Listing(
            fetch,
            f"jobs of {self.name}",
            names,
            lambda each: (each.id, each.kind, each.state, each.done, show.age(each.created)),
        )

    def job(self, id: str) -> "Job":
        """One job.  One request."""
        from graveler.lake.job import job

        return job(self._call("GET", "jobs", id))

    def cancel_job(self, id: str) -> None:
        """Cancel a job.  Raises `Conflict` if it has ended, or can no longer be cancelled.  One
        request."""
        self._call("DELETE", "jobs", id)

    def runs(
        self, branch: str = "", *, commit: str = "", after: str = "", limit: int | None = None
    ) -> "Listing[Run]":
        """The runs of hooks, the newest first, of a branch or of a commit, by its whole id.  A
        request for each 1,000."""
        path = with_query(self._path("actions", "runs"), branch=branch, commit=commit)

        def fetch() -> "Iterator[Run]":
            from graveler.lake import records

            return map(records.run, found(self.lake.session, path, after=after, amount=limit))

        names = ("run", "event", "branch", "status", "started")
        return Listing(
            fetch,
            f"runs of hooks of {self.name}",
            names,
            lambda each: (each.id, each.event, each.branch, each.status, show.age(each.started)),
        )

    def run(self, id: str) -> "Run":
        """One run of hooks.  One request."""
        from graveler.lake import records

        return records.run(self._call("GET", "actions", "runs", id))

    def hooks_of(self, run: "Run | str") -> "Listing[HookRun]":
        """The hooks that ran in a run; one that was skipped is not among them."""
        id = run if isinstance(run, str) else run.id
        path = self._path("actions", "runs", id, "hooks")

        def fetch() -> "Iterator[HookRun]":
            from graveler.lake import records

            return (records.hook_run(id, each) for each in found(self.lake.session, path))

        names = ("id", "action", "hook", "status")
        return Listing(
            fetch, f"hooks of run {id}", names, lambda each: [getattr(each, name) for name in names]
        )

    def hook_log(self, hook: "HookRun") -> str:
        """What a hook of a run sent and was answered, at most 64 MiB.  One request."""
        path = self._path("actions", "runs", hook.run, "hooks", hook.id, "output")
        with self.lake.session.open("GET", path) as answer:
            if answer.status != 200:
                raise error_of(answer)
            return answer.read_all(_LOG_BYTES_MAX).decode("utf-8", "replace")

    def run_log(self, run: "Run | str") -> str:
        """The logs of all hooks of a run.  A request for each hook, and one."""
        return "\n".join(
            f"{each.action}/{each.hook}: {each.status}\n{self.hook_log(each)}"
            for each in self.hooks_of(run)
        )

    def hooks_are_off(self) -> bool:
        """Whether the server runs no hooks, so that action files have no effect.  One request."""
        path = with_query(self._path("actions", "runs"), amount=1)
        answer = self.lake.session.answer("GET", path)
        return answer.says_that_hooks_are_off

    def snapshots(self, prefix: str = "") -> "Listing[Snapshot]":
        """The published snapshots, by name, each as it was published last.  A request for each
        1,000."""
        from graveler.lake.snapshots import snapshot

        def fetch() -> "Iterator[Snapshot]":
            return map(snapshot, found(self.lake.session, self._path("snapshots"), prefix=prefix))

        names = ("name", "version", "commit", "path", "age")
        return Listing(
            fetch,
            f"snapshots of {self.name}",
            names,
            lambda each: (
                each.name,
                each.version,
                each.commit[:_ID_SHOWN],
                each.path,
                show.age(each.created),
            ),
        )

    def withdraw(self, snapshot: "Snapshot | str") -> None:
        """Withdraw a published snapshot: its log is deleted, and its files are kept no longer on
        its account.  Raises `NotFound`; `Conflict` for an hour after a publication that did not
        end.  One request."""
        name = snapshot if isinstance(snapshot, str) else snapshot.name
        self.lake.session.call("DELETE", with_query(self._path("snapshots"), name=name))

    def dump(self) -> "Manifest":
        """Write all refs into the storage, and return what a restore needs.  Waits."""
        manifest = self.begin_dump().wait().manifest
        assert manifest is not None  # it is done
        return manifest

    def begin_dump(self) -> "RefsTask":
        """As `dump`, without waiting.  One request."""
        from graveler.lake.job import RefsTask

        return RefsTask(self, _id(self._call("POST", "dump")), "dump")

    def restore(self, manifest: "Manifest", *, force: bool = False) -> None:
        """Restore refs that `dump` wrote, into this repository, which must be bare.  `force`: also
        into a read-only one.  Waits."""
        self.begin_restore(manifest, force=force).wait()

    def begin_restore(self, manifest: "Manifest", *, force: bool = False) -> "RefsTask":
        """As `restore`, without waiting.  One request."""
        from graveler.lake.job import RefsTask

        body = {**manifest, **({"force": True} if force else {})}
        return RefsTask(self, _id(self._call("POST", "restore", body=body)), "restore")

    # ---- as a value --------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Repository):
            return NotImplemented
        return (self.name, self.lake.session.url) == (other.name, other.lake.session.url)

    def __hash__(self) -> int:
        return hash((self.name, self.lake.session.url))

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        namespace = show.safe(lambda: f" in {self.namespace}")
        return show.printable(f"repository {self.name}{namespace}")

    def _repr_html_(self) -> str:
        return self.branches()._repr_html_()


def _id(answer: Any) -> str:
    return str(having(answer, "id")["id"])
