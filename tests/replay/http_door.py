"""A served store as the door of a replay, through the unmodified `lakefs` package.

An object's content is its recorded identity, so its checksum names it.  What one commit changes is
written by two threads at once.
"""

import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import lakefs
import lakefs_sdk
from lakefs.client import Client as LakeFS
from lakefs.exceptions import ConflictException

from tests.replay import recorded
from tests.replay.recorded import Change, Recorded, Tree
from tests.replay.replay import Made, Merged

PAGE = 1_000
_WRITERS = 2
IDENTITIES = {hashlib.md5(identity.encode()).hexdigest(): identity for identity in recorded.sizes()}


class HttpDoor:
    """A new repository below a namespace."""

    is_octopus = False

    def __init__(self, client: LakeFS, namespace: str) -> None:
        self._client = client
        self._repo = lakefs.Repository("history", client=client).create(f"{namespace}/history")
        self._writers = ThreadPoolExecutor(_WRITERS)
        self.first = self.head("main")

    def open(self, branch: str, commit: str) -> None:
        self._repo.branch(branch).create(commit)

    def close(self, branch: str) -> None:
        self._repo.branch(branch).delete()

    def head(self, branch: str) -> str:
        return str(self._repo.branch(branch).get_commit().id)

    def commit(
        self, branch: str, row: Recorded, changes: Sequence[Change], *, fixes: bool, empty: bool
    ) -> Made:
        target = self._repo.branch(branch)
        uploads = [
            self._writers.submit(target.object(path).upload, identity, pre_sign=False)
            for path, identity, _ in changes
            if identity is not None
        ]
        gone = [path for path, identity, _ in changes if identity is None]
        if gone:
            target.delete_objects(gone)
        for upload in uploads:
            upload.result()
        asked = lakefs_sdk.CommitCreation(
            message=f"commit {row.n}",
            metadata={"n": str(row.n)},
            date=row.time,
            allow_empty=empty,
        )
        made = self._client.sdk_client.commits_api.commit(self._repo.id, branch, asked)
        assert (made.message, made.creation_date) == (f"commit {row.n}", row.time)
        assert made.metadata == {"n": str(row.n)}
        return Made(made.id, tuple(made.parents))

    def merge(self, source: str, branch: str, row: Recorded) -> Merged:
        ref, target = self._repo.ref(source), self._repo.branch(branch)
        bases = self._client.sdk_client.refs_api.find_merge_base(self._repo.id, ref.id, branch)
        lines = target.diff(ref, amount=PAGE)
        conflicts = [line.path for line in lines if line.type == "conflict"]
        about = {"message": f"merge {row.n}", "allow_empty": True}
        try:
            made = ref.merge_into(target, **about)
        except ConflictException:
            made = ref.merge_into(target, strategy="dest-wins", **about)
            return Merged(made, bases.base_commit_id, conflicts, refused=True)
        return Merged(made, bases.base_commit_id, conflicts, refused=False)

    def with_parents(self, branch: str, made: str, parents: tuple[str, ...]) -> str:
        raise NotImplementedError

    def tree(self, ref: str) -> Tree:
        listed = self._repo.ref(ref).objects(amount=PAGE)
        return {each.path: IDENTITIES[each.checksum] for each in listed}

    def difference(self, left: str, right: str) -> list[tuple[str, str]]:
        lines = self._repo.ref(left).diff(right, type="two_dot", amount=PAGE)
        return [(line.type, line.path) for line in lines]

    def commit_of(self, ref: str) -> str:
        return str(self._repo.ref(ref).get_commit().id)

    def log(self, ref: str, *, first_parent: bool = False) -> list[str]:
        query = {"first_parent": True} if first_parent else {"amount": PAGE}
        return [commit.id for commit in self._repo.ref(ref).log(**query)]

    def uncommitted(self) -> Mapping[str, int]:
        return {branch.id: len(list(branch.uncommitted())) for branch in self._repo.branches()}
