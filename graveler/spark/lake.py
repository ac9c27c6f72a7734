"""A lake: the connection of a Spark job to the API, and the place where executors find objects.

    keys = Credentials("KEY", "secret")
    with connect(spark, "https://host", keys) as lake: …     a server
    with connect(spark, "folder", keys) as lake: …           an embedded store

Only one process can open an embedded store, so `connect` starts a server on it.  The server ends
when the lake is closed or this process ends.  Executors get a `Place`: names, no credentials.  For
users of the package.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple

from pyspark.sql import SparkSession

from graveler import client
from graveler.block.address import split_prefix
from graveler.client import Session
from graveler.errors import Invalid, Unauthenticated
from graveler.ids import parse_branch_id, parse_repository_id
from graveler.records import BreakParameters
from graveler.settings import endpoint_url
from graveler.spark.cluster.places import Place, opened
from graveler.spark.cluster.server import Credentials, EmbeddedServer, serve
from graveler.spark.cluster.workers import check_workers

_SCHEMES: Final = ("http://", "https://")
_NO_WRITING: Final = BreakParameters()


@dataclass(frozen=True, slots=True)
class Lake:
    """A connection to the API.

    `store`: the folder of the embedded store, under the name by which every executor sees it; empty
    if there is none.  Leaving the `with` block, or calling `close`, stops the server that `connect`
    started.
    """

    spark: SparkSession
    session: Session
    store: str = ""
    close: Callable[[], None] = field(default=lambda: None, repr=False)

    def __enter__(self) -> "Lake":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def connect(
    spark: SparkSession,
    url_or_store: str | Path,
    credentials: Credentials,
    *,
    store: str | Path = "",
    import_roots: Sequence[Path] = (),
) -> Lake:
    """Connect to a lake behind a URL, or in the folder of an embedded store that no server has
    open.

    `credentials`: for a folder, they become the administrator's credentials.
    `store`: the folder of the embedded store that the server at the URL serves.
    `import_roots`: folders of this machine from which the server that this call starts may import.
    Errors: `Invalid` (also if Spark's workers have another Python or other packages than this
    process; one small job finds that out, once for each session); `Unauthenticated`; `Unavailable`
    if the server does not start (its output goes to standard error) or does not answer.
    """
    text, keys = str(url_or_store), Credentials(*credentials)  # a plain pair serves too
    check_workers(spark)
    if text.startswith(_SCHEMES):
        folder = os.path.abspath(store) if store else ""
        if folder and not os.path.isdir(os.path.join(folder, "objects")):
            raise Invalid(f"store= is not the folder of an embedded store: store={folder}")
        return Lake(spark, _known(text, keys), folder)
    if "://" in text or not text:
        raise Invalid(f"not the URL of a server and not a folder: {text!r:.200}")
    served: EmbeddedServer = serve(Path(text), keys, import_roots)
    session = client.connect(served.url, keys.access_key_id, keys.secret_access_key)
    return Lake(spark, session, os.path.abspath(text), served.stop)


def _known(url: str, keys: Credentials) -> Session:
    """A session that the server accepts."""
    session = client.connect(url, keys.access_key_id, keys.secret_access_key)
    try:
        session.call("GET", "/user")
    except Unauthenticated as error:
        raise Unauthenticated(f"{error}: {url=} access_key_id={keys.access_key_id}") from error
    return session


class Target(NamedTuple):
    """A branch or ref, and a prefix of paths: empty, or a folder with its slash."""

    repository: str
    branch: str
    prefix: str


def parse_target(text: str) -> Target:
    """Parse `repository/branch` or `repository/branch/some/folder`; a folder without a slash at its
    end gets one.  Raises `Invalid`."""
    target = parse_ref(text)
    parse_branch_id(target.branch)
    return target


def parse_names(names: str | Sequence[str]) -> tuple[str, ...]:
    """Names of columns: several, or one as plain text."""
    return (names,) if isinstance(names, str) else tuple(names)


def parse_ref(text: str) -> Target:
    """Parse `repository/ref` or `repository/ref/some/folder`; a folder without a slash at its end
    gets one.  Raises `Invalid`.  The API, not this function, checks the form of the ref."""
    repository, _, rest = text.removeprefix("lakefs://").partition("/")
    ref, _, prefix = rest.partition("/")
    parse_repository_id(repository)
    if not ref:
        raise Invalid(f"ref invalid: it must look like repository/ref/folder: {text!r:.200}")
    if prefix and not prefix.endswith("/"):
        prefix += "/"
    return Target(repository, ref, prefix)


def place_of(lake: Lake, namespace: str, breaks: BreakParameters = _NO_WRITING) -> Place:
    """Where executors find the objects of a repository.  Only writers need `breaks`.  Raises
    `Invalid` if the objects lie in a folder of the server and `lake.store` does not name it."""
    parts = split_prefix(f"{namespace}/")
    if parts.scheme == "s3":
        return Place(f"s3:{parts.bucket}", namespace, breaks, endpoint_url())
    if parts.scheme != "local" or not lake.store:
        raise Invalid(
            "the objects are in a folder of the server: name it, as the executors see it, with "
            f"connect(…, store=…): {namespace=}"
        )
    place = Place(f"local:{lake.store}/objects", namespace, breaks)
    _check_store(place, lake.store)
    return place


@lru_cache(maxsize=64)
def _check_store(place: Place, store: str) -> None:
    """Raise `Invalid` if the folder has nothing of the repository: otherwise a wrong folder would
    look like lost objects."""
    if not opened(place).blocks.list(f"{place.namespace}/", "", 1).lines:
        raise Invalid(
            "the folder store= has no object of this repository: name the folder that the server "
            f"has open, as this machine sees it: {store=} namespace={place.namespace}"
        )
