"""Listings of buckets: refs at the top of one, objects below a ref.

    prefix "main/" and on                  ──► objects of `main`
    prefix "" or "ma", the delimiter `/`   ──► branches, each a common prefix `main/`
    prefix "" or "ma", no delimiter        ──► objects of all these branches

A ref that does not exist is refused: an empty listing would make clients delete their copies.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final, NamedTuple

from graveler.auth.access import refusal, seeing
from graveler.auth.permissions import Permission
from graveler.core import limits
from graveler.core.errors import Code, Invalid, NotFound
from graveler.core.records import ABSENT, Record
from graveler.engine import names as branches
from graveler.engine.names import PageQuery
from graveler.engine.objects import read
from graveler.engine.objects.read import ListQuery
from graveler.engine.ports import OpenRepository
from graveler.engine.repositories import repository
from graveler.gateway.errors import REGION_HEADER, S3Error
from graveler.gateway.operation import (
    BELOW_REF,
    LIST_BRANCHES,
    LIST_OBJECTS,
    READ_REPOSITORY,
    S3Call,
    operation,
)
from graveler.gateway.request import Level, count_of, name_of_token, shown_as, token_of
from graveler.gateway.xml import (
    NAMESPACE,
    Markup,
    Template,
    document,
    joined,
    long_document,
    timestamp,
)
from graveler.http import permissions
from graveler.http.answers import Answer, RenderedLines
from graveler.http.dispatch import Runs
from graveler.http.permissions import REPO_ARN
from graveler.refs.resolve import parse

# ---- the order of branches -----------------------------------------------------------------------

_BEFORE_SLASH = "-"  # the only character of branch names that sorts before the slash
_BEHIND_DASH = "."  # the character after it


class BranchPage(NamedTuple):
    """At most `amount` branches whose names begin with `prefix`, and whose names with a slash sort
    after `after`."""

    prefix: str
    after: str
    amount: int


def branches_after(repo: OpenRepository, page: BranchPage) -> tuple[list[str], bool]:
    """The names on the page, and whether more follow.  Hidden branches are left out.

    Cost: 1 KV request for each 1,000 branches, and 1 for each `-` in `after`.
    """
    name, slash, _ = page.after.partition("/")
    name = name[: limits.name_length_max + 1]
    waiting = [
        short for short in _shorter(name, is_whole=not slash) if short.startswith(page.prefix)
    ]
    start = name + _BEHIND_DASH if slash else name
    names = _ordered(
        [short for short in waiting if _is_shown(repo, short)], _listed(repo, page, start)
    )
    shown = list(islice(names, page.amount + 1))
    return shown[: page.amount], len(shown) > page.amount


def branches_from(repo: OpenRepository, page: BranchPage) -> tuple[list[str], bool]:
    """As `branches_after`, but a branch with which `after` begins, before a slash, comes first."""
    names, more = branches_after(repo, page)
    name, slash, _ = page.after.partition("/")
    if slash and name.startswith(page.prefix) and _is_shown(repo, name):
        names.insert(0, name)
    return names, more


def _shorter(name: str, *, is_whole: bool) -> Iterator[str]:
    """The names that sort before `name`, but with a slash after it."""
    for length in range(1, len(name)):
        if name[length] < "/":
            yield name[:length]
    if is_whole and name:
        yield name


def _is_shown(repo: OpenRepository, name: str) -> bool:
    with suppress(NotFound, Invalid):
        return not branches.get_branch(repo, name).branch.hidden
    return False


def _listed(repo: OpenRepository, page: BranchPage, after: str) -> Iterator[str]:
    """Names in the order of the store."""
    more = True
    while more:
        query = PageQuery(page.prefix, after, min(page.amount + 1, limits.page_count_max))
        views, more = branches.list_branches(repo, query)
        for view in views:
            yield view.id
            after = view.id


def _ordered(waiting: Iterable[str], names: Iterable[str]) -> Iterator[str]:
    """Names in the order with a slash, from names in their own order."""
    stack = list(waiting)
    for name in names:
        while stack and not name.startswith(stack[-1] + _BEFORE_SLASH):
            yield stack.pop()
        stack.append(name)
    yield from reversed(stack)


# ---- listings ------------------------------------------------------------------------------------

_RESULT: Final = Template(
    f'<ListBucketResult xmlns="{NAMESPACE}"><Name>{{}}</Name><IsTruncated>{{}}</IsTruncated>'
    "<Prefix>{}</Prefix>{}<KeyCount>{}</KeyCount><MaxKeys>{}</MaxKeys>{}"
)
_RESULT_END: Final = b"</ListBucketResult>"
_CONTENTS: Final = Template(
    "<Contents><Key>{}</Key><LastModified>{}</LastModified><ETag>&#34;{}&#34;</ETag>"
    "<Size>{}</Size>{}<StorageClass>STANDARD</StorageClass></Contents>"
)
# The service owns all objects: it does not keep who wrote one.
_OWNER: Final = Markup("<Owner><ID>graveler</ID><DisplayName>graveler</DisplayName></Owner>")
_COMMON: Final = Template("<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>")
_FIELDS: Final = {
    name: Template(f"<{name}>{{}}</{name}>")
    for name in (
        *("Delimiter", "EncodingType", "Marker", "NextMarker", "StartAfter", "ContinuationToken"),
        "NextContinuationToken",
    )
}
_UNKNOWN_REF: Final = (Code.REF_NOT_FOUND, Code.REF_AMBIGUOUS, Code.ANCESTOR_NOT_FOUND)
_BRANCHES_MAX: Final = 100  # read for one page
_BEHIND_SLASH: Final = "0"  # the character after it


class ListRequest(NamedTuple):
    """The parameters of a listing.  `after`: the last line of the page before.  `shown`: a name as
    the answer has it, in the encoding `encoding`, which may be empty.  `has_owner`: lines name the
    owner of the object."""

    prefix: str
    delimiter: str
    after: str
    amount: int
    encoding: str
    shown: Callable[[str], str]
    is_second: bool
    has_owner: bool


class ListPage(NamedTuple):
    """A page: its lines in byte order, as the engine lists them, and whether more follow.  `stem`:
    what the name of each line begins with, before the key of its record.  `end`: the text behind
    which the next page begins, if it is not the name of the last line."""

    lines: Sequence[Record]
    more: bool
    stem: str = ""
    end: str = ""

    @property
    def last(self) -> str:
        """The text behind which the next page begins."""
        return self.end or self.stem + self.lines[-1][0].decode()


_NO_LINES: Final = ListPage((), False)


def _request(parameters: Mapping[str, str]) -> ListRequest:
    is_second = "list-type" in parameters
    if is_second and parameters["list-type"] != "2":
        raise S3Error("InvalidArgument", "The list-type must be 2.")
    encoding, shown = shown_as(parameters)
    token = parameters.get("continuation-token" if is_second else "marker", "")
    if is_second:
        after = name_of_token(token) if token else parameters.get("start-after", "")
    else:
        after = token
    return ListRequest(
        parameters.get("prefix", ""),
        parameters.get("delimiter", ""),
        after,
        count_of(parameters, "max-keys", limits.page_count_max),
        encoding,
        shown,
        is_second,
        is_second and parameters.get("fetch-owner", "") == "true",
    )


def _object_page(call: S3Call, request: ListRequest) -> ListPage:
    """The objects below the ref with which the prefix begins.

    Raises `S3Error` for an unknown ref: NoSuchBucket, because s5cmd ends a synchronisation only for
    this code.  Raises `NotFound` for content that is gone.
    """
    ref, _, prefix = request.prefix.partition("/")
    stem = f"{ref}/"
    after, amount = "", request.amount
    if request.after.startswith(stem):
        after = request.after[len(stem) :]
    elif request.after.encode() > stem.encode():
        amount = 0
    query = ListQuery(prefix, request.delimiter, after, max(1, amount))  # the ref must exist
    try:
        parse(ref)
    except Invalid as error:
        raise _unknown(ref) from error
    try:
        lines, more = read.list_records(call.repo, ref, query)
    except NotFound as error:
        raise _unknown(ref) if error.code in _UNKNOWN_REF else error from error
    return ListPage(lines, more, stem) if amount else _NO_LINES


def _unknown(ref: str) -> S3Error:
    return S3Error("NoSuchBucket", f"The ref of this listing does not exist: {ref}")


def _flat_page(call: S3Call, request: ListRequest) -> ListPage:
    """The objects of all branches whose names begin with the prefix, in the order of their keys.

    A page reads at most `_BRANCHES_MAX` branches, so it may be short, and even empty.  Raises
    `Refused`, and `NotFound` for content that is gone.
    """
    if permissions.lacks(call, LIST_OBJECTS.action, ""):
        raise refusal(call.refused[-1])
    first, _, after = request.after.partition("/")
    names, more = branches_from(call.repo, BranchPage(request.prefix, request.after, _BRANCHES_MAX))
    lines: list[Record] = []
    for name in names:
        query = ListQuery("", "", after if name == first else "", request.amount - len(lines))
        try:
            records, more_here = read.list_records(call.repo, name, query)
        except NotFound as error:
            if error.code in _UNKNOWN_REF:
                continue  # deleted since its name was read
            raise
        stem = f"{name}/".encode()
        lines += [(stem + key, value) for key, value in records]
        if more_here:
            return ListPage(lines, True)
        if len(lines) == request.amount:
            return ListPage(lines, more or name != names[-1])
    return ListPage(lines, more, end=names[-1] + _BEHIND_SLASH if more else "")


def _branch_page(call: S3Call, request: ListRequest) -> ListPage:
    """The branches whose names begin with the prefix, in the order of their names with a slash;
    without a delimiter, their objects.  Raises `S3Error` for another delimiter."""
    if not request.delimiter:
        return _flat_page(call, request)
    if request.delimiter != "/":
        text = (
            "Across branches, the delimiter must be / or absent; or begin the prefix with BRANCH/."
        )
        raise S3Error("InvalidArgument", text)
    page = BranchPage(request.prefix, request.after, request.amount)
    names, more = branches_after(call.repo, page)
    return ListPage([(f"{name}/".encode(), b"") for name in names], more)


def _listing(call: S3Call, *, below_ref: bool) -> Answer:
    request = _request(call.parameters)
    if below_ref:
        page = _object_page(call, request)
    else:
        page = _branch_page(call, request) if request.amount else _NO_LINES
    form = [
        *_some("Delimiter", request.shown(request.delimiter)),
        *_some("EncodingType", request.encoding),
    ]
    begin = _RESULT(
        call.address.bucket,
        "true" if page.more else "false",
        request.shown(request.prefix),
        _fields(form),
        len(page.lines),
        request.amount,
        _fields(_continuation(call.parameters, request, page)),
    )
    return long_document(begin, _body(request, page), _RESULT_END)


def _fields(named: Iterable[tuple[str, str]]) -> Markup:
    return joined(_FIELDS[name](value) for name, value in named)


def _some(name: str, value: str) -> Iterable[tuple[str, str]]:
    return [(name, value)] if value else []


def _continuation(
    parameters: Mapping[str, str], request: ListRequest, page: ListPage
) -> Iterable[tuple[str, str]]:
    """Where the page begins, and where the next one does."""
    last = page.last if page.more else ""
    if not request.is_second:
        yield "Marker", request.shown(request.after)
        if request.delimiter or page.end:  # otherwise the last key is the marker
            yield from _some("NextMarker", request.shown(last))
        return
    yield from _some("NextContinuationToken", token_of(last) if last else "")
    yield from _some("ContinuationToken", parameters.get("continuation-token", ""))
    yield from _some("StartAfter", request.shown(parameters.get("start-after", "")))


class _Context(NamedTuple):
    """What the lines of a page have in common."""

    stem: str
    shown: Callable[[str], str]
    owner: Markup


def _lines(context: _Context, records: Sequence[Record]) -> list[bytes]:
    """Lines of a page.  Pure."""
    return [_line(context, record).encode() for record in records]


def _line(context: _Context, record: Record) -> Markup:
    path, entry = read.line_of(record)
    name = context.shown(context.stem + path)
    if entry is ABSENT:
        return _COMMON(name)
    return _CONTENTS(name, timestamp(entry.modified_ns), entry.checksum, entry.size, context.owner)


_LINES: Final = RenderedLines(_lines)


def _body(request: ListRequest, page: ListPage) -> Sequence[bytes]:
    """All lines: the objects, then the common prefixes."""
    lines = page.lines
    if request.delimiter:  # without one, all lines are of one kind
        lines = sorted(lines, key=lambda record: not record[1])  # a common prefix has no value
    owner = _OWNER if request.has_owner else Markup("")
    return _LINES.of(_Context(page.stem, request.shown, owner), lines)


_BRANCH_ERRORS: Final = ("InvalidArgument", "NoSuchVersion")
_LIST_ERRORS: Final = ("InvalidArgument", "NoSuchBucket", "NoSuchKey", "NoSuchVersion")


@operation(
    "ListObjects", "GET", Level.BUCKET, BELOW_REF, permissions=(LIST_OBJECTS,), errors=_LIST_ERRORS
)
def list_objects(call: S3Call) -> Answer:
    """The objects below a ref, in the first version of the listing."""
    return _listing(call, below_ref=True)


@operation(
    "ListObjectsV2",
    "GET",
    Level.BUCKET,
    "list-type",
    BELOW_REF,
    permissions=(LIST_OBJECTS,),
    errors=_LIST_ERRORS,
)
def list_objects_v2(call: S3Call) -> Answer:
    """The objects below a ref."""
    return _listing(call, below_ref=True)


@operation("ListBranches", "GET", Level.BUCKET, permissions=(LIST_BRANCHES,), errors=_BRANCH_ERRORS)
def list_branches(call: S3Call) -> Answer:
    """The branches as common prefixes, or their objects, in version 1 of the listing."""
    return _listing(call, below_ref=False)


@operation(
    "ListBranchesV2",
    "GET",
    Level.BUCKET,
    "list-type",
    permissions=(LIST_BRANCHES,),
    errors=_BRANCH_ERRORS,
)
def list_branches_v2(call: S3Call) -> Answer:
    """The branches as common prefixes, or all their objects."""
    return _listing(call, below_ref=False)


# ---- buckets -------------------------------------------------------------------------------------

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
    buckets = joined(_BUCKET(timestamp(each.created_ns), each.id) for each in repos)
    return document(_BUCKETS(buckets, caller.user, caller.user, token))


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
