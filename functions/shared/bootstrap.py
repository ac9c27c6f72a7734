"""Starts a function, before its first event: opens the store and sets up the log.

A sandbox may start as a copy of the memory of another one (SnapStart).  Two copies must not use the
same random values: `Afresh` makes its value again in each copy.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial, wraps
from typing import Any, Generic, TypeVar

from aws_lambda_powertools import Logger
from aws_lambda_powertools.logging.utils import copy_config_to_registered_loggers

from graveler.assembly.aws import Aws, open_aws, secret_text
from graveler.assembly.drivers import ThreadFanout
from graveler.core import clock, limits, settings
from graveler.core.settings import Deployment, HookSettings

T = TypeVar("T")
Handler = Callable[[Any, Any], Any]


class Afresh(Generic[T]):
    """A value that `make` makes now, and again in each copy of this process."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self.value = make()
        _on_restore(self._again)

    def _again(self) -> None:
        self.value = self._make()


def open_store() -> Aws:
    """Open the store that the environment variables name, with hooks if they allow hosts.

    A function of its own sends what hooks send: this one has rights on the store."""
    aws = open_aws(deployment())
    variables = settings.environment()
    hooks = _hook_settings(aws, variables)
    if hooks.hosts:
        from graveler.hooks.function import FunctionSender
        from graveler.hooks.gate import open_hooks

        sender = partial(FunctionSender, aws.session, settings.hooks_function(variables))
        together = ThreadFanout(limits.hook_threads)
        opened = open_hooks(hooks, aws.ports.clock, together, sender)
        aws = aws._replace(ports=replace(aws.ports, hooks=opened))
    _on_restore(clock.reseed)
    _on_restore(aws.thaw)
    return aws


def _hook_settings(aws: Aws, variables: Mapping[str, str]) -> HookSettings:
    """What hooks may reach and use.  Their secrets are in Secrets Manager, because many may read
    the environment of a function.  In an engine on one machine, hooks may reach that machine."""
    if name := settings.hooks_secret_name(variables):
        variables = settings.with_hooks_secret(variables, secret_text(aws.session, name))
    loopback = settings.is_local_engine(variables)
    return settings.hook_settings(variables, loopback=loopback)


def at_rest(aws: Aws) -> Callable[[Handler], Handler]:
    """Decorates a handler: it returns when no thread works on ranges any more (`Aws.rest`), because
    the sandbox is frozen then until the next event."""

    def decorated(handle: Handler) -> Handler:
        @wraps(handle)
        def resting(event: Any, context: Any) -> Any:
            try:
                return handle(event, context)
            finally:
                aws.rest()

        return resting

    return decorated


def deployment() -> Deployment:
    """The settings that the template gave this function."""
    return settings.deployment(settings.environment())


def open_log() -> Logger:
    """A logger that writes one JSON object per line; the loggers of `graveler` use it too."""
    log = Logger()
    copy_config_to_registered_loggers(source_logger=log, include={"graveler"})
    return log


def _on_restore(action: Callable[[], None]) -> None:
    """Register `action` to run in each restored copy, in the order of registration.  Outside
    Lambda there are no copies, and this does nothing."""
    try:
        from snapshot_restore_py import register_after_restore
    except ImportError:
        return
    register_after_restore(action)
