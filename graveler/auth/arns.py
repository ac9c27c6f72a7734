"""Names of resources: `arn:lakefs:<service>:<region>:<account>:<resource>`.

A name is split at its first five colons, so a colon in a resource, such as an object's path, means
nothing.  All parts but the last are compared exactly: they contain no colon, so a name has them if
it begins with them and their colons.  In a pattern, the last part is a glob (graveler/globs.py).
`*` alone, as a pattern, is every resource; as a name, it is the resource of operations that concern
no single one, and only the pattern `*` matches it.

`${user}` in the last part of a pattern stands for the caller's id.  Ids contain none of `*?${}:/`
(names.py), so an id is never read as a pattern.  Pure.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

from graveler.errors import Invalid
from graveler.globs import Glob, glob

EVERYTHING: Final = "*"
USER: Final = "${user}"
_FIELDS: Final = 6
_ACCOUNT: Final = ("arn", "lakefs")


class Pattern(NamedTuple):
    """The resources of a statement.

    `head`: the parts before the last, with their colons; empty for `*`.  `start`: what every name
    begins with that is one of the resources.
    """

    head: str
    resource: Glob
    start: str

    def matches(self, name: str) -> bool:
        """Whether `name` is one of the resources."""
        if not name.startswith(self.start):  # most patterns of most callers
            return False
        return not self.head or self.resource.matches(name[len(self.head) :])

    def covers(self, head: str) -> bool:
        """Whether all names that begin with `head` are among the resources."""
        return self._has(head, self.resource.covers)

    def reaches(self, head: str) -> bool:
        """Whether a name that begins with `head` is one of the resources."""
        return self._has(head, self.resource.reaches)

    def _has(self, name: str, is_right: Callable[[str], bool]) -> bool:
        if not self.head:
            return True
        return name.startswith(self.head) and is_right(name[len(self.head) :])


def resource(service: str, path: str) -> str:
    """The name of a resource of this lake."""
    return f"arn:lakefs:{service}:::{path}"


def pattern(text: str, user: str) -> Pattern:
    """The pattern that `text` is for `user`.  Raises `Invalid`."""
    return _pattern(text, user if USER in text else "")


@lru_cache(maxsize=8_192)
def _pattern(text: str, user: str) -> Pattern:
    if text == EVERYTHING:
        return Pattern("", glob("*"), "")
    parts = text.split(":", _FIELDS - 1)
    if len(parts) != _FIELDS or tuple(parts[:2]) != _ACCOUNT or not parts[-1]:
        raise Invalid(
            "resource invalid: it must be * or arn:lakefs:<service>:<region>:<account>:<resource>: "
            f"resource={text[:200]!r}"
        )
    if set("".join(parts[:-1])) & set("*?${}"):
        raise Invalid(
            f"resource invalid: only its last part may have wildcards: resource={text[:200]!r}"
        )
    head, names = text[: -len(parts[-1])], glob(parts[-1].replace(USER, user))
    return Pattern(head, names, head + names.words[0].partition("?")[0])
