"""What every function does once, before its first event: open the store, set up the log.

A sandbox may begin as a copy of another one's memory (SnapStart).  What was drawn by chance before
must not be used by two of them: `Afresh` makes its value anew in each copy.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from aws_lambda_powertools import Logger
from aws_lambda_powertools.logging.utils import copy_config_to_registered_loggers

from graveler import clock, settings
from graveler.assembly.aws import Aws, open_aws
from graveler.settings import Deployment

T = TypeVar("T")


class Afresh(Generic[T]):
    """A value that is made now, and again in each copy of this process."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self.value = make()
        _on_restore(self._again)

    def _again(self) -> None:
        self.value = self._make()


def open_store() -> Aws:
    """The store that the environment names."""
    aws = open_aws(deployment())
    _on_restore(clock.reseed)
    _on_restore(aws.thaw)
    return aws


def deployment() -> Deployment:
    """What the template told this function."""
    return settings.deployment(settings.environment())


def open_log() -> Logger:
    """One JSON object a line; what the product logs goes the same way."""
    log = Logger()
    copy_config_to_registered_loggers(source_logger=log, include={"graveler"})
    return log


def _on_restore(action: Callable[[], None]) -> None:
    """Have `action` called in each copy, in the order given; elsewhere there are no copies."""
    try:
        from snapshot_restore_py import register_after_restore
    except ImportError:
        return
    register_after_restore(action)
