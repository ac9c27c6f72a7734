"""Opens the hooks of a deployment.  For the commands and the functions."""

from collections.abc import Callable

from graveler.clock import Clock
from graveler.engine.hooks import Hooks
from graveler.fanout import Fanout
from graveler.hooks.calls import Caller
from graveler.hooks.egress import EgressRules, WebSender
from graveler.hooks.gate import Gate
from graveler.hooks.payloads import Variables
from graveler.settings import HookSettings
from graveler.web import Sender


def open_hooks(
    settings: HookSettings,
    clock: Clock,
    together: Fanout,
    sender_of: Callable[[EgressRules, Clock], Sender] = WebSender,
) -> Hooks:
    """The hooks of a deployment that allows hosts.  `together` runs actions at the same time;
    `sender_of` makes what sends their requests: by default this process."""
    sender = sender_of(EgressRules(settings.hosts, settings.loopback), clock)
    caller = Caller(sender, clock, Variables(settings.variables), settings.signing_key)
    return Gate(caller, together)
