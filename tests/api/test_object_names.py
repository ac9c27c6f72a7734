"""The name that is authorized is the name that is used, byte for byte."""

import pytest

from graveler.auth.permissions import Permission
from tests.api.serving import Served
from tests.api.somebody import Somebody

# Names that another layer could take for one another; none is another's.
NAMES = (
    "a/b",
    "a//b",
    "a/./b",
    "a/../b",
    "b",
    "/b",
    "a%2Fb",
    "a%252Fb",
    "a\\b",
    "a b",
    "a+b",
    "a%20b",
    "A/b",
    "caf\u00e9",  # composed
    "cafe\u0301",  # the same with a combining accent
    "a/b\u200b",
    "a\u202eb",
    "a:b",
    "arn:lakefs:fs:::repository/x/object/a/b",
    "*",
    "a?b",
    "${user}",
)


def _object(repo: str, name: str) -> str:
    return f"arn:lakefs:fs:::repository/{repo}/object/{name}"


@pytest.mark.parametrize("name", NAMES)
def test_a_right_on_a_name_is_for_its_very_bytes(
    live: Served, somebody: Somebody, repo: str, name: str
) -> None:
    """Under a policy that denies this name alone, all others may be written, read, listed."""
    somebody.may(Permission("fs:*", "*"), deny=(_denied(repo, name),))
    where = f"/repositories/{repo}/branches/main/objects"
    for other in NAMES:
        reply = somebody.client.send("POST", where, {"path": other}, body=other.encode())
        assert reply.status == (403 if _is_denied(name, other) else 201), other
        found = live.client.send("GET", f"/repositories/{repo}/refs/main/objects", {"path": other})
        assert found.status == (404 if _is_denied(name, other) else 200)
        assert found.status == 404 or found.body == other.encode()
    listed = live.client.send("GET", f"/repositories/{repo}/refs/main/objects/ls").json["results"]
    assert {each["path"] for each in listed} == {
        other for other in NAMES if not _is_denied(name, other)
    }


def _denied(repo: str, name: str) -> Permission:
    return Permission("fs:WriteObject", _object(repo, name))


def _is_denied(name: str, other: str) -> bool:
    """Wildcards of a policy match, and `${user}` is the caller; nothing else matches but the name
    itself."""
    if name == "${user}":
        return False
    if name == "*":
        return True
    if name == "a?b":
        return len(other) == 3 and other[0] == "a" and other[2] == "b"
    return other == name


def test_a_name_with_a_zero_byte_is_refused(live: Served, repo: str) -> None:
    for place in ("branches/main", "refs/main"):
        method = "POST" if place.startswith("branches") else "GET"
        path = f"/repositories/{repo}/{place}/objects"
        assert live.client.send(method, path, {"path": "a\0b"}, body=b"").status == 400
