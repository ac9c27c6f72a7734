"""Addresses on the command line: which repository, ref and path a word names.

    [lakefs://]REPOSITORY[/REF[/PATH]]     graveler:// is read too
    lakefs://PROFILE@REPOSITORY/…          on the server of a profile; `cp` alone takes it
    :REF[/PATH]                            in the current repository: that of an earlier address of
                                           the command, else that of the profile

Names of repositories and refs contain no slash, so the first two slashes separate; all that follows
is the path, as it is.  Without a scheme, the base URI (`--base-uri`, `LAKECTL_BASE_URI`) is put
before the text.  Pure, but that a message does not correct what is a file here.
"""

import os
from dataclasses import dataclass, replace
from typing import Final

from graveler.core.errors import UsageMistake

SCHEME: Final = "lakefs://"
SCHEMES: Final = (SCHEME, "graveler://")
_FORMS: Final = "REPOSITORY, REPOSITORY/REF or REPOSITORY/REF/PATH"


@dataclass(frozen=True, slots=True)
class Address:
    """A repository, a ref in it, or a path at a ref.  Absent parts are empty."""

    repository: str
    ref: str = ""
    path: str = ""
    profile: str = ""  # empty: that of the command

    def __str__(self) -> str:
        before = f"{self.profile}@" if self.profile else ""
        return before + "/".join(part for part in (self.repository, self.ref, self.path) if part)

    @property
    def folder(self) -> str:
        """The path as a prefix: it ends with a slash, or is empty."""
        return self.path + "/" if self.path and not self.path.endswith("/") else self.path

    @property
    def unprofiled(self) -> "Address":
        """The same without the profile, as commands that take no profile in an address need it."""
        return replace(self, profile="")

    def at(self, path: str) -> "Address":
        """Another path at the same ref."""
        return replace(self, path=path)


def is_remote(text: str) -> bool:
    """Whether a word that could also be a file names something on the server."""
    return text.startswith(SCHEMES)


def base_before(text: str, base_uri: str) -> str:
    """The base URI if it stands before this address as it was typed; else nothing."""
    return "" if text.startswith((":", *SCHEMES)) else base_uri


def parse(text: str, *, base_uri: str = "", current: str = "") -> Address:
    """The address in `text`.  `current`: the repository of `:REF`.  Raises `UsageMistake`."""
    if text.startswith(":"):
        if not current:
            raise UsageMistake(
                f"no current repository for {text!r}: write REPOSITORY{text.replace(':', '/', 1)}, "
                "or set one: graveler config set repository NAME"
            )
        text = f"{current}/{text[1:]}"
    else:
        text = base_before(text, base_uri) + text
    for scheme in SCHEMES:
        text = text.removeprefix(scheme)
    repository, _, rest = text.partition("/")
    profile, at, name = repository.partition("@")
    repository = name if at else repository
    ref, _, path = rest.partition("/")
    if not repository or ":" in repository or (path and not ref) or (at and not profile):
        corrected = _corrected(text)
        form = f"write {corrected}" if corrected else f"it must look like {_FORMS}"
        raise UsageMistake(f"address invalid: {text!r}: {form}")
    return Address(repository, ref, path, profile if at else "")


def _corrected(text: str) -> str:
    """How an address that is invalid was perhaps meant; empty if nobody can know, and if it is a
    file here."""
    if os.path.lexists(text):
        return ""
    scheme, colon, rest = text.partition(":")
    is_scheme = bool(colon) and f"{scheme}://" in SCHEMES
    words = rest if is_scheme else text
    address = words.lstrip("/")
    return address if (is_scheme or address != words) and ":" not in address else ""
