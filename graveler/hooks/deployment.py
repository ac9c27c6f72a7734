"""Opens the hooks of a deployment.  For the commands and the functions."""

from graveler.clock import Clock
from graveler.engine.hooks import Hooks
from graveler.fanout import Fanout
from graveler.hooks.calls import Caller
from graveler.hooks.egress import EgressRules, WebSender
from graveler.hooks.gate import Gate
from graveler.hooks.payloads import Variables
from graveler.settings import HookSettings


def open_hooks(settings: HookSettings, clock: Clock, together: Fanout) -> Hooks:
    """The hooks of a deployment that allows hosts.  `together` runs actions at the same time."""
    sender = WebSender(EgressRules(settings.hosts, settings.loopback), clock)
    caller = Caller(sender, clock, Variables(settings.variables), settings.signing_key)
    return Gate(caller, together)
