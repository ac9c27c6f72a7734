"""The function that sends what hooks send: its role may write its log, and nothing else.

The API and the worker invoke it with a request that they have signed.  It knows the hosts that are
allowed, and no secret.  Its code needs no package of the layer.
"""

from quiet_start import start

# isort: split
from typing import Any

from graveler.core.clock import SystemClock
from graveler.core.settings import environment, hook_hosts, is_local_engine
from graveler.hooks.egress import EgressRules, WebSender, answered

RULES = EgressRules(hook_hosts(environment()), is_local_engine(environment()))
CLOCK = SystemClock()
sender = WebSender(RULES, CLOCK)


@start.end
def handle(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Send one request, and return its answer, or why there is none."""
    return answered(event, sender, CLOCK)
