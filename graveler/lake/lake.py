"""A lake: a server, or a store in this process, and its repositories."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from graveler.core.errors import Conflict, Invalid, Unsupported
from graveler.core.ids import parse_repository_id
from graveler.core.settings import environment
from graveler.lake import show
from graveler.lake.answers import told
from graveler.lake.branch import Branch
from graveler.lake.connections import Connections
from graveler.lake.errors import Raising, creating, raising
from graveler.lake.ref import Ref
from graveler.lake.repository import Repository
from graveler.lake.session import Session, found, having, with_query
from graveler.lake.session import connect as session_of
from graveler.lake.show import Listing

if TYPE_CHECKING:
    from graveler.lake.admin import Admin
    from graveler.lake.objects import Namespaces

_SCHEMES: Final = ("graveler://", "lakefs://")
_NO_SERVER: Final = (
    "connect(url, access_key_id, secret_access_key); or `graveler login URL` in a shell, once; or "
    "graveler.open(folder), which needs no server; with fsspec storage_options={'lake': lake}"
)


class Lake(Raising):
    """A server with repositories, or a store.  Threads may share one.  Made by `graveler.connect`
    and `graveler.open`."""

    def __init__(self, session: Session) -> None:
        self.session = session

    @property
    def url(self) -> str:
        """The URL of the server."""
        return self.session.url.removesuffix("/api/v1")

    @cached_property
    def presigns(self) -> bool:
        """Whether bytes go directly to and from the object store; not for a user that may not read
        the configuration.  One request, once."""
        from graveler.lake import objects

        return objects.storage(self.session).presigns

    # ---- repositories ------------------------------------------------------------------------

    def repository(self, name: str) -> Repository:
        """A repository.  Sends no request; it need not exist."""
        if not name or "/" in name:
            raise Invalid(f"name of a repository invalid: {name!r}")
        return Repository(self, name)

    def repositories(
        self, prefix: str = "", *, after: str = "", limit: int | None = None
    ) -> Listing[Repository]:
        """The repositories, sorted by name.  A request for each 1,000."""

        def fetch() -> Iterator[Repository]:
            how: dict[str, Any] = {"prefix": prefix, "after": after, "amount": limit}
            for answer in found(self.session, "/repositories", "id", **how):
                yield told(Repository(self, answer["id"]), answer)

        return Listing(fetch, f"repositories of {self.url}", ("name",), lambda each: (each.name,))

    def create_repository(
        self,
        name: str,
        namespace: str = "",
        *,
        default_branch: str = "",
        sample_data: bool = False,
        read_only: bool = False,
        bare: bool = False,
        exist_ok: bool = False,
    ) -> Repository:
        """A new repository.  `namespace`: where its objects go, `s3://bucket/prefix`; without one,
        below the prefix that the server proposes.  `default_branch`: instead of main.  `bare`:
        without a branch, to `restore` into.  Raises `AlreadyExists` if the name is taken, but not
        with `exist_ok`; `Invalid` if the namespace is.  A name has 3 to 63 lower-case letters,
        digits and hyphens.  One request, or two."""
        body: dict[str, Any] = {
            "name": name,
            "storage_namespace": namespace or self._proposed(name),
            "default_branch": default_branch,
            "sample_data": sample_data,
            "read_only": read_only,
        }
        body = {field: value for field, value in body.items() if value}
        try:
            remedy = f"lake.repository({name!r}), or exist_ok=True"
            with creating("repository", name, remedy):
                answer = self.session.call("POST", with_query("/repositories", bare=bare), body)
        except Conflict:
            if not (exist_ok and Repository(self, name).exists()):
                raise
            return Repository(self, name)
        except Invalid as error:
            try:
                parse_repository_id(name)
            except Invalid as rule:  # says what is wrong with the name
                rule.fields = {**error.fields, "reason": str(rule)}
                raise rule from None
            raise
        return told(Repository(self, name), having(answer, "id", "default_branch"))

    def namespaces(self) -> "Namespaces":
        """Where new repositories can be.  One request."""
        from graveler.lake import objects

        return objects.namespaces(self.session)

    def _proposed(self, name: str) -> str:
        known = self.namespaces()
        prefix = known.prefix or (known.example if known.example.startswith("local:") else "")
        if not prefix:
            example = f"{known.example}{name}"
            raise Invalid(f"namespace missing: where the objects go, such as {example}")
        return f"{prefix.rstrip('/')}/{name}" if not prefix.endswith("://") else f"{prefix}{name}"

    def at(self, address: str) -> tuple[Ref, str]:
        """The ref and the path that `REPOSITORY/REF/PATH` names, with or without `graveler://`."""
        for scheme in _SCHEMES:
            address = address.removeprefix(scheme)
        name, _, rest = address.partition("/")
        ref, _, path = rest.partition("/")
        if not name or not ref:
            raise Invalid(f"address invalid: it must look like REPOSITORY/REF/PATH: {address!r}")
        return Branch(Repository(self, name), ref), path

    def _table(self, ref: Ref, path: str, format: str) -> Any:
        """See `Ref.table`.  A lake with a session of Spark has tables."""
        raise Unsupported(
            f"this lake has no session of Spark, so it has no tables: {ref.address}/{path}",
            remedy="lake = graveler.spark.connect(spark, lake); or read it as a dataset()",
        )

    # ---- the server --------------------------------------------------------------------------

    @cached_property
    def admin(self) -> "Admin":
        """Users, groups, policies, keys, the audit trail, usage."""
        from graveler.lake.admin import Admin

        return Admin(self.session)

    def whoami(self) -> str:
        """The id of the user whose credentials these are.  One request."""
        return self.admin.me().id

    def config(self) -> Mapping[str, Any]:
        """What the server says of itself, as JSON: its version, its storage.  One request."""
        return having(self.session.call("GET", "/config"))

    def version(self) -> str:
        """The version of the server.  One request."""
        answer = having(self.config(), "version_config")
        return str(having(answer["version_config"], "version")["version"])

    def close(self) -> None:
        """Close idle connections.  The lake of a server can be used again; that of a folder, which
        this closes for other processes, only after another `open`."""
        self.session.connections.close()

    def __enter__(self) -> "Lake":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getitem__(self, name: str) -> Repository:
        return self.repository(name)

    def __repr__(self) -> str:
        return show.printable(f"lake at {self.url}")

    def _repr_html_(self) -> str:
        return self.repositories()._repr_html_()


@raising
def connect(
    url: str = "",
    access_key_id: str = "",
    secret_access_key: str = "",
    *,
    token: str = "",
    profile: str = "",
) -> Lake:
    """The lake of a server.  Sends no request.

    Without arguments: the profile that `graveler login` wrote, or the one that GRAVELER_PROFILE
    names, or the variables or file of lakectl.  `profile`: another one.  `token`: of a session or
    of an identity provider, instead of a key.  Raises `Invalid` if no server is known,
    `Unauthenticated` without credentials.
    """
    if url and (token or (access_key_id and secret_access_key)):
        session = session_of(url, access_key_id, secret_access_key, token=token)
        return Lake(session)
    if access_key_id or secret_access_key or token:
        raise Invalid("give url, access_key_id and secret_access_key; or url and token; or nothing")
    from graveler.lake import profiles

    flags: dict[str, Any] = {"profile": profile, "server": url}
    chosen = profiles.resolve(flags, environment(), _NO_INPUT)
    if not chosen.server:
        raise Invalid("no server is known", remedy=_NO_SERVER)
    return Lake(profiles.session(chosen, Connections()))


class _NoInput:
    """Profiles may read a secret from the standard input; a library does not."""

    def readline(self) -> str:
        return ""


_NO_INPUT: Final[Any] = _NoInput()
