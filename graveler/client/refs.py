"""Repositories, branches and tags, over the API.

Answers are the JSON objects of the API, as typed dictionaries.  A list is read page by page while
it is iterated: one request for each 1,000 items.  Every other call is one request.  All calls raise
the errors of `Session.ask`.  Part of the public Python client.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final, TypedDict, cast

from graveler.client.session import NOT_GRAVELER, Session, below, paged, with_query
from graveler.errors import Internal

_PAGE: Final = 1_000


class Repository(TypedDict):
    """A repository.  `creation_date` is in seconds since 1970."""

    id: str
    creation_date: int
    default_branch: str
    storage_namespace: str


class Ref(TypedDict):
    """A branch or a tag, and the id of its commit."""

    id: str
    commit_id: str


# ---- repositories --------------------------------------------------------------------------------


def list_repositories(
    session: Session, *, prefix: str = "", after: str = "", amount: int | None = None
) -> Iterator[Repository]:
    """The repositories, sorted by id."""
    for item in listed(session, "/repositories", prefix, after, amount):
        yield cast(Repository, item)


def get_repository(session: Session, repository: str) -> Repository:
    """One repository.  Raises `NotFound`."""
    answer = session.ask("GET", below("repositories", repository))
    return cast(Repository, checked(answer, "id", "default_branch", "storage_namespace"))


def create_repository(
    session: Session,
    name: str,
    storage_namespace: str,
    *,
    default_branch: str = "",
    sample_data: bool = False,
    read_only: bool = False,
    bare: bool = False,
) -> Repository:
    """Create a repository.  `bare`: without a branch, for a restore.  Raises `Conflict` if the name
    is taken, `Invalid` if the namespace is."""
    body: dict[str, Any] = {"name": name, "storage_namespace": storage_namespace}
    if default_branch:
        body["default_branch"] = default_branch
    body |= {
        key: True for key, on in (("sample_data", sample_data), ("read_only", read_only)) if on
    }
    answer = session.ask("POST", with_query("/repositories", bare=bare), body)
    return cast(Repository, checked(answer, "id", "default_branch", "storage_namespace"))


def delete_repository(session: Session, repository: str, *, force: bool = False) -> None:
    """Delete a repository; its objects stay in the storage.  `force`: also a read-only one."""
    session.ask("DELETE", with_query(below("repositories", repository), force=force))


def repository_metadata(session: Session, repository: str) -> Mapping[str, str]:
    """The metadata of a repository."""
    answer = session.ask("GET", below("repositories", repository, "metadata"))
    return cast(Mapping[str, str], checked(answer))


def set_repository_metadata(session: Session, repository: str, pairs: Mapping[str, str]) -> None:
    """Set keys; others stay."""
    path = below("repositories", repository, "metadata")
    session.ask("POST", path, {"metadata": dict(pairs)})


def delete_repository_metadata(session: Session, repository: str, keys: list[str]) -> None:
    """Delete keys."""
    session.ask("DELETE", below("repositories", repository, "metadata"), {"keys": keys})


# ---- branches ------------------------------------------------------------------------------------


def list_branches(
    session: Session,
    repository: str,
    *,
    prefix: str = "",
    after: str = "",
    amount: int | None = None,
    hidden: bool = False,
) -> Iterator[Ref]:
    """The branches, sorted by name.  `hidden`: hidden ones too."""
    path = with_query(below("repositories", repository, "branches"), show_hidden=hidden)
    for item in listed(session, path, prefix, after, amount):
        yield cast(Ref, item)


def get_branch(session: Session, repository: str, branch: str) -> Ref:
    """One branch.  Raises `NotFound`."""
    answer = session.ask("GET", below("repositories", repository, "branches", branch))
    return cast(Ref, checked(answer, "id", "commit_id"))


def create_branch(
    session: Session, repository: str, name: str, source: str, *, hidden: bool = False
) -> Ref:
    """Create a branch on the commit of `source`.  Raises `Conflict` if the name is taken."""
    body = {"name": name, "source": source, **({"hidden": True} if hidden else {})}
    answer = session.ask("POST", below("repositories", repository, "branches"), body)
    if not isinstance(answer, str):
        raise Internal(NOT_GRAVELER)
    return Ref(id=name, commit_id=answer.strip())


def delete_branch(session: Session, repository: str, branch: str) -> None:
    """Delete a branch, and its uncommitted changes; its commits stay."""
    session.ask("DELETE", below("repositories", repository, "branches", branch))


def reset_branch(session: Session, repository: str, branch: str, path: str = "") -> None:
    """Discard the uncommitted changes of a branch: all, of one path, or below a prefix that ends
    with a slash."""
    kind = "reset" if not path else "common_prefix" if path.endswith("/") else "object"
    body = {"type": kind, **({"path": path} if path else {})}
    session.ask("PUT", below("repositories", repository, "branches", branch), body)


def hard_reset_branch(
    session: Session, repository: str, branch: str, ref: str, *, expected: str = ""
) -> None:
    """Move the head of a branch to the commit that `ref` means.  `expected`: the id of the commit
    that it must be on, unless it is already on that of `ref`.

    Raises `DirtyBranch` if the branch has uncommitted changes, `PreconditionFailed` if it is on
    another commit."""
    path = below("repositories", repository, "branches", branch, "hard_reset")
    headers = {"If-Match": f'"{expected}"'} if expected else {}
    session.ask("PUT", with_query(path, ref=ref), headers=headers)


# ---- tags ----------------------------------------------------------------------------------------


def list_tags(
    session: Session,
    repository: str,
    *,
    prefix: str = "",
    after: str = "",
    amount: int | None = None,
) -> Iterator[Ref]:
    """The tags, sorted by name."""
    path = below("repositories", repository, "tags")
    for item in listed(session, path, prefix, after, amount):
        yield cast(Ref, item)


def get_tag(session: Session, repository: str, tag: str) -> Ref:
    """One tag.  Raises `NotFound`."""
    answer = session.ask("GET", below("repositories", repository, "tags", tag))
    return cast(Ref, checked(answer, "id", "commit_id"))


def create_tag(session: Session, repository: str, name: str, ref: str) -> Ref:
    """Create a tag on the commit that `ref` means.  Raises `Conflict` if the name is taken."""
    body = {"id": name, "ref": ref}
    answer = session.ask("POST", below("repositories", repository, "tags"), body)
    return cast(Ref, checked(answer, "id", "commit_id"))


def delete_tag(session: Session, repository: str, tag: str) -> None:
    """Delete a tag; its commit stays.  Raises `NotFound`."""
    session.ask("DELETE", below("repositories", repository, "tags", tag))


# ---- answers -------------------------------------------------------------------------------------


def listed(
    session: Session,
    path: str,
    prefix: str = "",
    after: str = "",
    amount: int | None = None,
    *,
    page_max: int = _PAGE,
) -> Iterator[dict[str, Any]]:
    """The items of a list in pages of at most `page_max`, at most `amount`.  `path` may have a
    query."""
    page = page_max if amount is None else min(amount, page_max)
    return islice(paged(session, with_query(path, prefix=prefix), page, after), amount)


def checked(answer: Any, *names: str) -> dict[str, Any]:
    """An answer that is an object with these fields.  Raises `Internal`."""
    if not isinstance(answer, dict) or not answer.keys() >= set(names):
        raise Internal(NOT_GRAVELER)
    return answer
