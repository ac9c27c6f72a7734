"""Keeps Python from looking for garbage while a service imports its modules.

An import makes objects that live as long as the process.  Looking through them again and again
takes a tenth of the start of a service.  For the commands that serve.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_start() -> Iterator[None]:
    """Look for no garbage within the block, and afterwards never among the objects that exist by
    its end."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
