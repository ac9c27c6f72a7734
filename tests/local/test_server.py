"""What a linked folder asks the server."""

from typing import Any

import pytest

from graveler.client.session import connect
from graveler.local.entries import Prefix, Settings
from graveler.local.server import PrefixServer
from tests.client.scripted import Said, scripted


class Asked:
    """A session that keeps the paths of deletions."""

    def __init__(self) -> None:
        self.pages: list[list[str]] = []

    def ask(self, method: str, path: str, body: Any) -> dict[str, Any]:
        self.pages.append(body["paths"])
        return {}


def test_many_deletions_are_several_requests() -> None:
    session: Any = Asked()
    server = PrefixServer(session, Prefix("lake", "main", "data/"), Settings())
    server.delete([str(number) for number in range(2_001)])
    assert [len(page) for page in session.pages] == [1_000, 1_000, 1]
    assert (session.pages[0][0], session.pages[2]) == ("data/0", ["data/2000"])


MD5 = "9dd4e461268c8034f5c8564e155c67a6"  # of b"x"


@pytest.mark.parametrize(("encryption", "expected"), [("AES256", MD5), ("aws:kms", "")])
def test_the_etag_of_an_encrypted_object_is_no_md5(encryption: str, expected: str) -> None:
    said = (("ETag", f'"{MD5}"'), ("x-amz-server-side-encryption", encryption))
    with scripted([Said(200, b"x", said)]) as there:
        session = connect(there.url, "KEY", "secret")
        server = PrefixServer(session, Prefix("lake", "main", "data/"), Settings(), pre_sign=False)
        with server.read("main", "a", MD5) as content:
            assert (b"".join(content.pieces), content.md5) == (b"x", expected)
