"""Endpoints of multipart uploads whose bytes go to the storage by presigned URLs."""

from typing import Any, Final

from graveler.api import answers, conditions, shapes
from graveler.api.answers import NO_CONTENT, Answer
from graveler.api.service import Call
from graveler.block.adapter import Part
from graveler.engine.objects import multipart, read
from graveler.engine.objects.multipart import Finish, PartSource, PartsUpload
from graveler.engine.ports import open_repository
from graveler.engine.repositories import repository
from graveler.errors import Invalid, RangeUnsatisfiable, Unsupported

_NUMBER_LENGTH_MAX: Final = 9


def create_presign_multipart_upload(call: Call) -> Answer:
    _check_served(call)
    branch, path, count = call.arguments["branch"], call.query["path"], call.query["parts"]
    begun = multipart.begin(call.repo, branch, path, count)
    shape: dict[str, Any] = {
        "upload_id": begun.upload.id,
        "physical_address": begun.upload.address,
    }
    if begun.urls:
        shape["presigned_urls"] = [call.absolute(url) for url in begun.urls]
    return answers.json(shape, 201)


def upload_part(call: Call) -> Answer:
    _check_served(call)
    branch, path = call.arguments["branch"], call.query["path"]
    url = multipart.part_url(call.repo, branch, path, _upload(call), _number(call))
    return answers.json({"presigned_url": call.absolute(url)})


def upload_part_copy(call: Call) -> Answer:
    """Copy bytes of an object, of any repository, into a part; the answer has its etag."""
    _check_served(call)
    copied = call.body["copy_source"]
    source_repo = open_repository(call.ports, repository.get(call.ports, copied["repository"]))
    entry = read.stat(source_repo, copied["ref"], copied["path"])
    window = conditions.window(copied.get("range", ""), entry.size)
    if isinstance(window, conditions.Unsatisfiable):
        raise RangeUnsatisfiable("range invalid: it must be one range of the source", entry.size)
    source = PartSource(source_repo, entry, window.start, window.end)
    branch, path = call.arguments["branch"], call.query["path"]
    part = multipart.copy_part(call.repo, branch, path, _upload(call), _number(call), source)
    return Answer(204, (answers.text_header(b"etag", f'"{part.etag}"'),))


def _number(call: Call) -> int:
    text = call.arguments["partNumber"]
    if not (text.isascii() and text.isdecimal() and len(text) <= _NUMBER_LENGTH_MAX):
        raise Invalid('parameter "partNumber" in path has an error: it must be a whole number')
    return int(text)


def complete_presign_multipart_upload(call: Call) -> Answer:
    _check_served(call)
    only_if_absent = conditions.only_if_absent(call.headers)
    body, branch, path = call.body, call.arguments["branch"], call.query["path"]
    upload = Finish(
        _upload(call),
        tuple(Part(each["part_number"], each["etag"].strip('"')) for each in body["parts"]),
        body.get("content_type", ""),
        body.get("user_metadata", {}),
        only_if_absent,
    )
    force = body.get("force", False)
    entry = multipart.finish(call.repo, branch, path, upload, force=force)
    shape = shapes.full_stats(call.repo.record, path, entry)
    shape["physical_address"] = entry.address  # clients expect it relative to the namespace here
    return answers.json(shape)


def abort_presign_multipart_upload(call: Call) -> Answer:
    _check_served(call)
    branch, path = call.arguments["branch"], call.query["path"]
    multipart.give_up(call.repo, branch, path, _upload(call))
    return NO_CONTENT


def _upload(call: Call) -> PartsUpload:
    return PartsUpload(call.body["physical_address"], call.arguments["uploadId"])


def _check_served(call: Call) -> None:
    if not call.service.settings.presigns_parts:
        raise Unsupported("presign multipart upload API is not supported")
