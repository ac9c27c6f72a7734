"""Repositories: their branches, tags, commits, pull requests, jobs, rules and settings."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from graveler.client import refs
from graveler.client.session import below, error_of, found, having, with_query
from graveler.core.errors import Conflict, NotFound
from graveler.lake import records, show
from graveler.lake.branch import Branch
from graveler.lake.errors import Raising, creating
from graveler.lake.records import BranchRule, HookRun, RetentionRules, Run
from graveler.lake.ref import Commit, Ref, Tag, name_of
from graveler.lake.show import Listing

if TYPE_CHECKING:
    from graveler.lake.event_rules import EventRules
    from graveler.lake.job import Collection, Job, Manifest, RefsTask
    from graveler.lake.lake import Lake
    from graveler.lake.pull_requests import PullRequests

_JOBS_PAGE: Final = 100  # servers refuse longer pages
_RULES: Final = ("settings", "gc_rules")
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
        answer = having(
            self.lake.session.call("GET", below("repositories", self.name, "refs", name)), "type"
        )
        if answer["type"] == "branch":
            return Branch(self, name)
        return Tag(self, name) if answer["type"] == "tag" else Commit(self, answer["commit_id"])

    @property
    def default_branch(self) -> Branch:
        """The branch that the repository began with.  One request."""
        return Branch(self, refs.get_repository(self.lake.session, self.name)["default_branch"])

    def branches(self, prefix: str = "") -> Listing[Branch]:
        """The branches, sorted by name.  A request for each 1,000."""

        def fetch() -> Iterator[Branch]:
            for answer in refs.list_branches(self.lake.session, self.name, prefix=prefix):
                yield Branch(self, answer["id"])

        return Listing(fetch, f"branches of {self.name}", ("branch",), lambda each: (each.name,))

    def tags(self, prefix: str = "") -> Listing[Tag]:
        """The tags, sorted by name.  A request for each 1,000."""

        def fetch() -> Iterator[Tag]:
            for answer in refs.list_tags(self.lake.session, self.name, prefix=prefix):
                yield Tag(self, answer["id"])

        return Listing(fetch, f"tags of {self.name}", ("tag",), lambda each: (each.name,))

    def create_branch(self, name: str, source: Ref | str = "", *, exist_ok: bool = False) -> Branch:
        """A new branch at `source`; without one, at the default branch.  Raises `AlreadyExists`,
        but not with `exist_ok`; the branch is then where it is.  One request, or two."""
        start = name_of(source) or self.default_branch.name
        try:
            with creating():
                refs.create_branch(self.lake.session, self.name, name, start)
        except Conflict:
            if not exist_ok:
                raise
        return Branch(self, name)

    def create_tag(self, name: str, ref: Ref | str) -> Tag:
        """A new tag.  Raises `AlreadyExists`.  One request."""
        with creating():
            refs.create_tag(self.lake.session, self.name, name, name_of(ref))
        return Tag(self, name)

    def delete_branch(self, name: Branch | str) -> None:
        """Delete a branch and what is not committed on it.  Its commits stay until a collection.
        One request."""
        refs.delete_branch(self.lake.session, self.name, name_of(name))

    def delete_tag(self, name: Tag | str) -> None:
        """Delete a tag; its commit stays.  One request."""
        refs.delete_tag(self.lake.session, self.name, name_of(name))

    # ---- settings ----------------------------------------------------------------------------

    def exists(self) -> bool:
        """Whether the repository exists.  One request."""
        try:
            refs.get_repository(self.lake.session, self.name)
        except NotFound:
            return False
        return True

    @property
    def namespace(self) -> str:
        """Where its objects are.  One request."""
        return refs.get_repository(self.lake.session, self.name)["storage_namespace"]

    @property
    def metadata(self) -> Mapping[str, str]:
        """The metadata of the repository.  One request."""
        return dict(refs.repository_metadata(self.lake.session, self.name))

    def set_metadata(self, pairs: Mapping[str, str]) -> None:
        """Set keys; others stay.  One request."""
        refs.set_repository_metadata(self.lake.session, self.name, pairs)

    def delete_metadata(self, *keys: str) -> None:
        """Delete keys.  One request."""
        refs.delete_repository_metadata(self.lake.session, self.name, list(keys))

    def protected(self) -> tuple[str, ...]:
        """The patterns of protected branches.  One request."""
        return refs.protected_patterns(self.lake.session, self.name)

    def protect(self, pattern: str) -> None:
        """Protect the branches that a pattern (`release-*`) names: they change by merges alone.
        Two requests."""
        refs.protect(self.lake.session, self.name, pattern)

    def unprotect(self, pattern: str) -> None:
        """End a protection.  Two requests."""
        refs.unprotect(self.lake.session, self.name, pattern)

    def retention(self) -> RetentionRules:
        """How many days the content of commits is kept; 0: forever, as if there are no rules.  One
        request, or two."""
        try:
            answer: Any = having(self._call("GET", *_RULES), *RetentionRules.__annotations__)
        except NotFound:  # the repository, or its rules
            self._call("GET")
            answer = RetentionRules(branches=[], default_retention_days=0)
        rules: RetentionRules = answer
        return rules

    def set_retention(self, days: int, branches: Mapping[str, int] | None = None) -> None:
        """Keep the content of commits that no branch needs for so many days, other numbers for
        some branches; 0: forever.  Of two writers the last one wins.  One request."""
        rules = [
            BranchRule(branch_id=branch, retention_days=count)
            for branch, count in (branches or {}).items()
        ]
        body = RetentionRules(branches=rules, default_retention_days=days)
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
        refs.delete_repository(self.lake.session, self.name, force=force)

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
    ) -> Listing[Run]:
        """The runs of hooks, the newest first, of a branch or of a commit, by its whole id.  A
        request for each 1,000."""
        path = with_query(self._path("actions", "runs"), branch=branch, commit=commit)

        def fetch() -> Iterator[Run]:
            return map(records.run, found(self.lake.session, path, after=after, amount=limit))

        names = ("run", "event", "branch", "status", "started")
        return Listing(
            fetch,
            f"runs of hooks of {self.name}",
            names,
            lambda each: (each.id, each.event, each.branch, each.status, show.age(each.started)),
        )

    def run(self, id: str) -> Run:
        """One run of hooks.  One request."""
        return records.run(self._call("GET", "actions", "runs", id))

    def hooks_of(self, run: Run | str) -> Listing[HookRun]:
        """The hooks that ran in a run; one that was skipped is not among them."""
        id = run.id if isinstance(run, Run) else run
        path = self._path("actions", "runs", id, "hooks")

        def fetch() -> Iterator[HookRun]:
            return (records.hook_run(id, each) for each in found(self.lake.session, path))

        names = ("id", "action", "hook", "status")
        return Listing(
            fetch, f"hooks of run {id}", names, lambda each: [getattr(each, name) for name in names]
        )

    def hook_log(self, hook: HookRun) -> str:
        """What a hook of a run sent and was answered, at most 64 MiB.  One request."""
        path = self._path("actions", "runs", hook.run, "hooks", hook.id, "output")
        with self.lake.session.open("GET", path) as answer:
            if answer.status != 200:
                raise error_of(answer)
            return answer.read_all(_LOG_BYTES_MAX).decode("utf-8", "replace")

    def run_log(self, run: Run | str) -> str:
        """The logs of all hooks of a run.  A request for each hook, and one."""
        return "\n".join(
            f"{each.action}/{each.hook}: {each.status}\n{self.hook_log(each)}"
            for each in self.hooks_of(run)
        )

    def hooks_are_off(self) -> bool:
        """Whether the server runs no hooks, so that action files have no effect.  One request."""
        path = with_query(self._path("actions", "runs"), amount=1)
        answer = self.lake.session.answer("GET", path)
        return answer.headers.get("x-graveler-hooks", "") == "off"

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
