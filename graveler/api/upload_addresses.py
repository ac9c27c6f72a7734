"""Endpoints of uploads that bypass the service: upload addresses, and links to written bytes."""

from graveler import limits
from graveler.api import answers, conditions, shapes
from graveler.api.answers import Answer
from graveler.api.service import Call
from graveler.engine.objects import addresses
from graveler.engine.objects.addresses import Link
from graveler.engine.objects.link import place
from graveler.errors import Invalid, Unsupported
from graveler.records import ABSENT


def get_physical_address(call: Call) -> Answer:
    """Hand out an address to upload one object to, with a presigned URL if `presign` is set.

    With `If-None-Match: *` the URL can only create an object, on every storage.  On S3 the PUT must
    then carry that header.
    """
    only_create = conditions.only_if_absent(call.headers)
    branch, path = call.arguments["branch"], call.query["path"]
    address = addresses.hand_out(call.repo, branch, path)
    if not call.query["presign"]:
        return answers.json({"physical_address": address, "presigned_url": None})
    presigned = call.ports.blocks.presign(
        address, "PUT", limits.presign_seconds_max, "", only_create=only_create
    )
    return answers.json(
        {
            "physical_address": address,
            "presigned_url": call.absolute(presigned.url),
            "presigned_url_expiry": shapes.seconds(presigned.expires_ns),
        }
    )


def link_physical_address(call: Call) -> Answer:
    only_if_absent = conditions.only_if_absent(call.headers)
    body, path = call.body, call.query["path"]
    address = body["staging"].get("physical_address", "")
    if not address:
        raise Invalid("request body has an error: staging.physical_address is missing")
    link = Link(
        address,
        body["checksum"].strip('"'),
        body["size_bytes"],
        body.get("content_type", ""),
        body.get("user_metadata", {}),
        only_if_absent=only_if_absent,
    )
    force = body.get("force", False)
    entry = addresses.link(call.repo, call.arguments["branch"], path, link, force=force)
    return answers.json(shapes.full_stats(call.repo.record, path, entry))


def stage_object(call: Call) -> Answer:
    if conditions.only_if_absent(call.headers):
        raise Unsupported("Not Implemented")
    body, path = call.body, call.query["path"]
    link = Link(
        body["physical_address"],
        body["checksum"],
        body["size_bytes"],
        body.get("content_type", ""),
        body.get("metadata", {}),
        body["mtime"] * limits.SECOND_NS if "mtime" in body else ABSENT,
    )
    force = body.get("force", False)
    entry = place(call.repo, call.arguments["branch"], path, link, force=force)
    return answers.json(shapes.stats(call.repo.record, path, entry), 201)
