"""Operations on buckets, which are repositories."""

from typing import Final

from graveler import limits
from graveler.api.answers import Answer
from graveler.api.operation import REPO_ARN, Runs
from graveler.auth.access import seeing
from graveler.auth.permissions import Permission
from graveler.engine.repositories import repository
from graveler.errors import Invalid, NotFound
from graveler.gateway.address import Level
from graveler.gateway.errors import REGION_HEADER, S3Error
from graveler.gateway.operation import READ_REPOSITORY, S3Call, operation
from graveler.gateway.parameters import count_of, name_of_token, token_of
from graveler.gateway.times import timestamp
from graveler.gateway.xml import NAMESPACE, Markup, Template, document, joined
from graveler.records import ABSENT, Repository

_BUCKETS: Final = Template(
    f'<ListAllMyBucketsResult xmlns="{NAMESPACE}"><Buckets>{{}}</Buckets>'
    "<Owner><DisplayName>{}</DisplayName><ID>{}</ID></Owner>{}</ListAllMyBucketsResult>"
)
_BUCKET: Final = Template("<Bucket><CreationDate>{}</CreationDate><Name>{}</Name></Bucket>")
_TOKEN: Final = Template("<ContinuationToken>{}</ContinuationToken>")
_LOCATION: Final = Template(f'<LocationConstraint xmlns="{NAMESPACE}"></LocationConstraint>')
_VERSIONING: Final = Template(f'<VersioningConfiguration xmlns="{NAMESPACE}"/>')


@operation(
    "ListBuckets",
    "GET",
    Level.SERVICE,
    permissions=(Permission("fs:ListRepositories", "*"),),
    errors=("InvalidArgument",),
)
def list_buckets(call: S3Call) -> Answer:
    """The repositories that the caller may see, at most 10,000 on a page."""
    caller, parameters = call.account, call.parameters
    assert caller is not ABSENT, "every request is signed"
    prefix, token = parameters.get("prefix", ""), parameters.get("continuation-token", "")
    after = name_of_token(token) if token else ""
    amount = count_of(parameters, "max-buckets", limits.bucket_page_count_max, least=1)

    def is_shown(name: str) -> bool:
        return not caller.lacks((seeing(name),))

    repos, more = repository.list_page(call.ports, prefix, is_shown, after, amount)
    token = _TOKEN(token_of(repos[-1].id)) if more else Markup("")
    return document(_BUCKETS(joined(map(_bucket, repos)), caller.user, caller.user, token))


def _bucket(record: Repository) -> Markup:
    return _BUCKET(timestamp(record.created_ns), record.id)


@operation("HeadBucket", "HEAD", Level.BUCKET, permissions=(READ_REPOSITORY,), runs=Runs.LOOP)
def head_bucket(call: S3Call) -> Answer:
    """Whether a repository exists, and its region."""
    return Answer(200, (REGION_HEADER,))


@operation(
    "GetBucketLocation",
    "GET",
    Level.BUCKET,
    "location",
    permissions=(READ_REPOSITORY,),
    runs=Runs.LOOP,
)
def get_bucket_location(call: S3Call) -> Answer:
    """The region of a repository: empty, which clients read as us-east-1."""
    return document(_LOCATION())


@operation(
    "GetBucketVersioning",
    "GET",
    Level.BUCKET,
    "versioning",
    permissions=(READ_REPOSITORY,),
    runs=Runs.LOOP,
)
def get_bucket_versioning(call: S3Call) -> Answer:
    """The versioning of a repository: none in the sense of S3."""
    return document(_VERSIONING())


@operation(
    "CreateBucket",
    "PUT",
    Level.BUCKET,
    permissions=(Permission("fs:CreateRepository", REPO_ARN),),
    errors=("BucketAlreadyExists", "BucketAlreadyOwnedByYou", "NotImplemented"),
    runs=Runs.POINT,
    in_repository=False,
)
def create_bucket(call: S3Call) -> Answer:
    """Refused: a repository needs a storage namespace, which no request of S3 names."""
    try:
        repository.get(call.ports, call.address.bucket)
    except (NotFound, Invalid) as error:
        raise S3Error(
            "NotImplemented",
            "A repository needs a storage namespace, which S3 has no word for: create it through "
            "the API, or with `graveler repo create`.",
        ) from error
    caller = call.account
    assert caller is not ABSENT, "every request is signed"
    is_seen = not caller.lacks((seeing(call.address.bucket),))
    raise S3Error("BucketAlreadyOwnedByYou" if is_seen else "BucketAlreadyExists")
