"""Operations on repositories, their metadata and the files of commits."""

from contextlib import suppress
from typing import Annotated, Final

from msgspec import Meta
from msgspec.structs import force_setattr

from graveler import limits
from graveler.api import answers, permits, samples, shapes
from graveler.api.answers import NO_CONTENT, Answer, Content
from graveler.api.field_types import Pairs, matching
from graveler.api.operation import (
    ARN,
    REPO,
    REPO_ARN,
    Body,
    Query,
    Runs,
    operation,
)
from graveler.api.queries import ForceQuery, Paging
from graveler.api.service import Call
from graveler.api.shapes import Repository, RepositoryList, StorageURI
from graveler.auth.access import seeing
from graveler.auth.permissions import Permission
from graveler.engine.commits import adopt
from graveler.engine.repositories import repository
from graveler.engine.repositories.repository import NewRepository
from graveler.errors import AlreadyExists, Invalid, NotFound, Refused
from graveler.ids import parse_namespace
from graveler.records import ABSENT

_DEFAULT_BRANCH: Final = "main"
_METADATA: Final = REPO + "/metadata"
_READ: Final = Permission("fs:ReadRepository", REPO_ARN)
_UPDATE: Final = Permission("fs:UpdateRepository", REPO_ARN)
_LIST: Final = Permission("fs:ListObjects", REPO_ARN)


class RepositoryPaging(Paging, frozen=True):
    """Which page of the repositories."""

    search: str = ""


class BareQuery(Query, frozen=True):
    """How a repository begins."""

    bare: Annotated[bool, Meta(description="create no branch and no commit")] = False


class RepositoryCreation(Body, frozen=True):
    """A new repository."""

    name: Annotated[str, matching("^[a-z0-9][a-z0-9-]{2,62}$")]
    storage_namespace: Annotated[
        str,
        matching(
            "^(s3|gs|https?|mem|local|transient)://.*$",
            max_length=limits.address_length_bytes_max,
            description="The place of the repository's files: scheme://bucket/prefix",
        ),
    ]
    default_branch: str = ""
    storage_id: str = ""
    sample_data: bool = False
    read_only: bool = False

    def __post_init__(self) -> None:
        with suppress(Invalid):  # the endpoint refuses it, and says why
            # One spelling for what is authorized and what is attached.
            force_setattr(self, "storage_namespace", parse_namespace(self.storage_namespace))


class RepositoryMetadataSet(Body, frozen=True):
    """Pairs to add or to replace."""

    metadata: Pairs


class RepositoryMetadataKeys(Body, frozen=True):
    """Keys of the pairs to remove."""

    keys: Annotated[tuple[str, ...], Meta(max_length=limits.metadata_pairs_max)]


@operation(
    "listRepositories",
    "GET",
    "/repositories",
    tag="repositories",
    permissions=(Permission("fs:ListRepositories", "*"),),
    answers={200: RepositoryList},
)
def list_repositories(call: Call, query: RepositoryPaging) -> Answer:
    """List the repositories that the caller may see."""
    caller = call.account
    assert caller is not ABSENT

    def is_shown(name: str) -> bool:
        return query.search in name and not caller.lacks((seeing(name),))

    repos, more = repository.list_page(call.ports, query.prefix, is_shown, query.after, query.count)
    return answers.page(
        [shapes.repository(each) for each in repos], more, repos[-1].id if repos else ""
    )


@operation(
    "createRepository",
    "POST",
    "/repositories",
    tag="repositories",
    permissions=(
        Permission("fs:CreateRepository", ARN + "repository/{name}"),
        Permission("fs:AttachStorageNamespace", ARN + "namespace/{storage_namespace}"),
    ),
    answers={201: Repository},
    errors=(AlreadyExists,),
    runs=Runs.POOL,
)
def create_repository(call: Call, query: BareQuery, body: RepositoryCreation) -> Answer:
    """Create a repository."""
    inside = f"{ARN}namespace/{body.storage_namespace}/"
    permits.refuse_denied_below(call, "fs:AttachStorageNamespace", inside)
    scheme = f"{call.service.settings.blockstore_type}://"
    if not body.storage_namespace.startswith(scheme):
        raise Invalid(f"failed to match required regex ^{scheme}: invalid namespace")
    if body.storage_id:
        raise Invalid("storage_id invalid: it must be empty, because there is only one storage")
    new = NewRepository(
        name=body.name,
        namespace=body.storage_namespace,
        default_branch=body.default_branch or _DEFAULT_BRANCH,
        read_only=body.read_only,
        bare=query.bare,
        content=samples.content(call.committer) if body.sample_data else ABSENT,
        protected=body.sample_data,
    )
    created = repository.create(call.ports, new)
    return answers.json(shapes.repository(created, bare=query.bare), 201)


@operation(
    "getRepository",
    "GET",
    REPO,
    tag="repositories",
    permissions=(_READ,),
    answers={200: Repository},
    errors=(NotFound,),
    runs=Runs.POINT,
)
def get_repository(call: Call) -> Answer:
    """Get a repository."""
    return answers.json(shapes.repository(call.repo.record))


@operation(
    "deleteRepository",
    "DELETE",
    REPO,
    tag="repositories",
    permissions=(Permission("fs:DeleteRepository", REPO_ARN),),
    answers={204: Content.NOTHING},
    errors=(Refused,),
    runs=Runs.POOL,
)
def delete_repository(call: Call, query: ForceQuery) -> Answer:
    """Delete a repository; its objects stay."""
    repository.delete(call.repo, force=query.force)
    return NO_CONTENT


@operation(
    "getRepositoryMetadata",
    "GET",
    _METADATA,
    tag="repositories",
    permissions=(_READ,),
    answers={200: dict[str, str]},
    runs=Runs.POINT,
)
def get_repository_metadata(call: Call) -> Answer:
    """Get the metadata of a repository."""
    return answers.json(repository.metadata(call.repo))


@operation(
    "setRepositoryMetadata",
    "POST",
    _METADATA,
    tag="repositories",
    permissions=(_UPDATE,),
    answers={204: Content.NOTHING},
    runs=Runs.POOL,
)
def set_repository_metadata(call: Call, body: RepositoryMetadataSet) -> Answer:
    """Add or replace metadata pairs."""
    repository.set_metadata(call.repo, body.metadata)
    return NO_CONTENT


@operation(
    "deleteRepositoryMetadata",
    "DELETE",
    _METADATA,
    tag="repositories",
    permissions=(_UPDATE,),
    answers={204: Content.NOTHING},
    runs=Runs.POOL,
)
def delete_repository_metadata(call: Call, body: RepositoryMetadataKeys) -> Answer:
    """Remove metadata pairs by key."""
    repository.delete_metadata(call.repo, list(body.keys))
    return NO_CONTENT


@operation(
    "getMetaRange",
    "GET",
    _METADATA + "/meta_range/{meta_range}",
    tag="metadata",
    permissions=(_READ, _LIST),
    answers={200: StorageURI},
    runs=Runs.POOL,
)
def get_meta_range(call: Call) -> Answer:
    """The address of a metarange."""
    return _location(adopt.metarange_location(call.repo, call.arguments["meta_range"]))


@operation(
    "getRange",
    "GET",
    _METADATA + "/range/{range}",
    tag="metadata",
    permissions=(_READ, _LIST),
    answers={200: StorageURI},
    runs=Runs.POOL,
)
def get_range(call: Call) -> Answer:
    """The address of a range."""
    return _location(adopt.range_location(call.repo, call.arguments["range"]))


def _location(location: str) -> Answer:
    header = answers.text_header(b"location", location)
    return answers.json(StorageURI(location), 200, (header,))
