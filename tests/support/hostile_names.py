"""Names that try to escape from a folder, or that sort in an unexpected order.

For the contract of object storage, and for tests of everything that takes a path from outside.
"""

from collections.abc import Iterator
from itertools import product

# In byte order of whole keys: '/' is 0x2F, so it comes after '!' and '.' and before '0'.
KEYS_IN_ORDER = tuple(
    sorted(
        {
            "A",
            "_lakefs/0",
            "_lakefs/0/below",
            "_lakefs/dummy",
            "a",
            "a b",
            "a!b",
            "a%",
            "a%/b",
            "a%25",
            "a%2Fb",
            "a.csv",
            "a/",
            "a/b",
            "a/b/c",
            "a/b.d/e",
            "a/x",
            "a0",
            "aa/",
            "data/00000000000000000000/11111111111111111111",
            "data/00000000000000000000/11111111111111111111/below",
            "data/00000000000000000000/1111111111111111111w",
            "data/00000000000000000000",
            "data/x/y",
            "with space/and more",
            "~tilde",
            "quote'\"",
            "line\nbreak",
            "tab\there",
            "\x01control",
            "\x7f",
            "é",
            "e\u0301",
            "ÿ/a",
            "日本語/ファイル",
            "\uffff",
            "\U0001f600/smile",
            "...",
            "..hidden",
            ".hidden/x",
            "a..b",
            "-rf",
            "*?[x]",
            "x;y|z&w",
            "k" * 200,
            "n/" * 60 + "end",
        },
        key=lambda key: key.encode(),
    )
)

_STEPS = ("..", ".", "", "..\\..", "a\\b", "\0", "x\0", "\\", "..\0", "\ud800")
_TAILS = ("etc/passwd", "secret", "a/b", "..", ".", "x/../y", "")


def escaping_addresses(bucket: str) -> Iterator[str]:
    """More than 1,000 addresses below `bucket` that no driver may serve."""
    scheme = bucket.partition("://")[0]
    steps = (*_STEPS, "ok")
    for first, second, third in product(steps, steps, steps):
        middle = "/".join((first, second, third))
        if middle != "ok/ok/ok":
            yield f"{bucket}/{middle}/file"
    for step, tail in product(_STEPS, _TAILS):
        yield f"{bucket}/{step}/{tail}"
        yield f"{scheme}://{step}/{tail}"
    yield from (
        bucket,
        f"{bucket}/",
        f"{bucket}//",
        f"{bucket}//a",
        f"{bucket}/a//b",
        f"{bucket}/a//",
        f"{bucket}/" + "x" * 3_000,
        f"{bucket}/" + "é" * 1_500,
        "",
        "/",
        "a",
        "/etc/passwd",
        "file:///etc/passwd",
        "http://127.0.0.1/x",
        "://a/b",
        f"{scheme}:/a/b",
        f"{scheme}:a/b",
        f"{scheme}//a/b",
        f" {scheme}://a/b",
        "é://a/b",
        "other://bucket/key",
    )
