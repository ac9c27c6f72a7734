"""Ports of which every request passes `send`, which decides what becomes of it.  For tests only."""

from collections.abc import Callable, Sequence
from typing import Any

from graveler.block.drivers import CreatesOneByOne
from graveler.core.errors import Unavailable
from graveler.kv.store import Newer, Outcome, newer_one_by_one

_Port: Any = object  # so that a wrapper may stand for the port that it wraps


class Passing(_Port):  # type: ignore[misc]
    """A port over another one."""

    def __init__(self, port: Any) -> None:
        self.port = port

    def send(self, verb: str, call: Callable[[], Any]) -> Any:
        """What a request answers.  `call` sends it to the port."""
        return call()


def _request(verb: str) -> Any:
    def request(self: Passing, *given: Any, **named: Any) -> Any:
        return self.send(verb, lambda: getattr(self.port, verb)(*given, **named))

    return request


class PassingStore(Passing):
    """`Store`; a batch counts as one request, but for `set_newer_many`."""

    get, get_many, scan = _request("get"), _request("get_many"), _request("scan")
    set, set_many, set_if = _request("set"), _request("set_many"), _request("set_if")
    set_newer, delete = _request("set_newer"), _request("delete")

    def set_newer_many(self, rows: Sequence[Newer]) -> Sequence[Outcome | Unavailable]:
        return newer_one_by_one(self, rows)


class PassingBlocks(CreatesOneByOne, Passing):
    """`Blocks`; making a URL or a place for a body is no request."""

    get, read, put, head = _request("get"), _request("read"), _request("put"), _request("head")
    list, copy, delete = _request("list"), _request("copy"), _request("delete")
    delete_all, check_versions = _request("delete_all"), _request("check_versions")
    create_upload, put_part = _request("create_upload"), _request("put_part")
    copy_part, list_parts = _request("copy_part"), _request("list_parts")
    complete_upload, abort_upload = _request("complete_upload"), _request("abort_upload")

    def spool(self, address: str) -> Any:
        return self.port.spool(address)

    def presign(self, *given: Any, **named: Any) -> Any:
        return self.port.presign(*given, **named)
