"""What a linked folder asks the server."""

from typing import Any

from graveler.local.entries import Prefix, Settings
from graveler.local.server import PrefixServer


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
