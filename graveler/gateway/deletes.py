"""Operations that delete objects: one key, or up to 1,000 in a batch."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from graveler import limits
from graveler.api import permits
from graveler.api.answers import NO_CONTENT, Answer
from graveler.api.operation import Runs
from graveler.auth.access import refusal, seeing
from graveler.block.adapter import OVERWRITE
from graveler.engine.objects import write
from graveler.engine.objects.rows import Condition
from graveler.errors import GravelerError, Invalid
from graveler.gateway.address import NO_VERSION, NOWHERE, Address, Level, address_in
from graveler.gateway.bodies import document_of
from graveler.gateway.errors import S3Error, report_of
from graveler.gateway.operation import DELETE_OBJECT, WRITE_CONDITIONS, S3Call, operation
from graveler.gateway.targets import check_target
from graveler.gateway.writes import condition_of
from graveler.gateway.xml import NAMESPACE, Markup, Template, document, joined
from graveler.gateway.xml_bodies import Bounds, Node
from graveler.http import conditions
from graveler.records import ABSENT

_RESULT: Final = Template(f'<DeleteResult xmlns="{NAMESPACE}">{{}}</DeleteResult>')
_DELETED: Final = Template("<Deleted><Key>{}</Key></Deleted>")
_ERROR: Final = Template("<Error><Key>{}</Key><Code>{}</Code><Message>{}</Message></Error>")
_BOUNDS: Final = Bounds(limits.xml_delete_bytes_max, limits.xml_delete_elements_max)
_TRUE: Final = ("true", "1")
_OTHER_CONDITIONS: Final = ("LastModifiedTime", "Size")


class _Item(NamedTuple):
    """A key of a batch: what it names and when to delete it, or why it names nothing."""

    key: str
    address: Address
    refused: GravelerError | None
    condition: Condition = OVERWRITE


@operation(
    "DeleteObject",
    "DELETE",
    Level.KEY,
    permissions=(DELETE_OBJECT,),
    errors=("InvalidArgument", "NoSuchBucket", "NoSuchKey", "PreconditionFailed"),
    conditions=WRITE_CONDITIONS,
    runs=Runs.POOL,
    writes=True,
)
def delete_object(call: S3Call) -> Answer:
    """Delete an object.  Without a condition, whether or not it exists.  `main/` and `main` name
    none."""
    condition = condition_of(call)
    if call.address.path:
        write.delete(call.repo, call.address.ref, call.address.path, condition)
    return NO_CONTENT


@operation(
    "DeleteObjects",
    "POST",
    Level.BUCKET,
    "delete",
    permissions=(DELETE_OBJECT,),
    errors=("MalformedXML",),
    runs=Runs.STREAM,
    by_item=True,
)
async def delete_objects(call: S3Call) -> Answer:
    """Delete up to 1,000 objects of any branches.  Each key is authorized and answered alone."""
    order = await document_of(call, "Delete", _BOUNDS)
    return await call.service.pools.writers.start(_delete_all, call, order)


def _delete_all(call: S3Call, order: Node) -> Answer:
    items = _items(call, order)
    errors: dict[str, GravelerError] = {
        item.key: item.refused for item in items if item.refused is not None
    }
    by_ref: dict[str, list[_Item]] = defaultdict(list)
    for item in items:
        if item.key not in errors and item.address.path:  # `main/` is no object: nothing to delete
            by_ref[item.address.ref].append(item)
    for ref, of_ref in by_ref.items():
        errors |= _delete(call, ref, of_ref)
    quiet = order.value("Quiet").strip().lower() in _TRUE
    lines = (_line(item.key, errors, quiet=quiet) for item in items)
    return document(_RESULT(joined(lines)))


def _line(key: str, errors: dict[str, GravelerError], *, quiet: bool) -> Markup:
    error = errors.get(key)
    if error is None:
        return Markup("") if quiet else _DELETED(key)
    report = report_of(error)
    return _ERROR(key, report.code, report.message)


def _items(call: S3Call, order: Node) -> Sequence[_Item]:
    """The keys of a batch, each with the reason why it is refused, if it is.

    Raises `S3Error` for a batch that is none, and `Refused` for a caller that may delete none of
    its keys and may not see the repository: no answer tells it that the repository exists.
    """
    nodes = list(order.every("Object"))
    if not 1 <= len(nodes) <= limits.bulk_delete_count_max:
        raise S3Error("MalformedXML")
    items = [_item(call, node) for node in nodes]
    caller, seen = call.account, (seeing(call.address.bucket),)
    assert caller is not ABSENT, "every request is signed"
    if all(item.refused is not None for item in items) and caller.lacks(seen):
        raise refusal(seen[0])
    return items


def _item(call: S3Call, node: Node) -> _Item:
    key = node.value("Key")
    address = NOWHERE
    try:
        if not key:
            raise S3Error("MalformedXML")
        address = address_in(call.address.bucket, key)
        if permits.lacks(call, DELETE_OBJECT.action, f"object/{address.path}"):
            raise S3Error("AccessDenied")
        if node.value("VersionId") not in NO_VERSION:
            raise S3Error("NoSuchVersion")
        if any(node.value(condition) for condition in _OTHER_CONDITIONS):
            raise S3Error("NotImplemented", "not implemented: a condition of a deletion")
        etag = node.value("ETag").encode()
        is_conditional = any(node.every("ETag"))  # an empty etag is refused
        condition = conditions.of_write({b"if-match": etag} if is_conditional else {}, finds=True)
    except (S3Error, Invalid) as error:
        return _Item(key, address, error)
    return _Item(key, address, None, condition)


def _delete(call: S3Call, ref: str, items: Sequence[_Item]) -> dict[str, GravelerError]:
    """Delete keys of one ref.  The result is why some were not deleted, by key."""
    errors: dict[str, GravelerError] = {}
    paths = [item.address.path for item in items if item.condition is OVERWRITE]
    try:
        check_target(call.repo, ref)
        failures = write.delete_many(call.repo, ref, paths) if paths else ()
    except GravelerError as error:
        return dict.fromkeys((item.key for item in items), error)
    for failure in failures:
        errors[f"{ref}/{failure.path}"] = failure.error
    for item in items:
        if item.condition is not OVERWRITE:
            try:
                write.delete(call.repo, ref, item.address.path, item.condition)
            except GravelerError as error:
                errors[item.key] = error
    return errors
