"""Ports of which a test gives some verbs itself."""

from collections.abc import Callable
from typing import Any

from graveler.block.drivers import CreatesOneByOne, OneByOne


class Overridden:
    """A port with other verbs: what is not given goes to the port."""

    def __init__(self, port: Any, **verbs: Callable[..., Any]) -> None:
        self._port = port
        self.__dict__.update(verbs)

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._port, verb)


class OverriddenBlocks(CreatesOneByOne, OneByOne, Overridden):
    """An object store with other verbs; many creations or deletions are single ones."""
