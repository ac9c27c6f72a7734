"""The first import of every function: while it starts, Python looks for no garbage.

A start makes objects that live as long as the process.  Looking through them again and again takes
an eighth of its time.
"""

import gc
from collections.abc import Callable
from typing import Any, TypeVar

H = TypeVar("H", bound=Callable[..., Any])


class Start:
    """The time from the first import to the definition of the handler."""

    def __init__(self) -> None:
        gc.disable()

    def end(self, handler: H) -> H:
        """Look for garbage again, but never among the objects that exist by now.  A decorator."""
        gc.freeze()
        gc.enable()
        return handler


start = Start()
