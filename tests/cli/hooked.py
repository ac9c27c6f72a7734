"""What tests of commands about hooks and policies need: an action file, the hooks of a service that
may call a web server of the test, and a policy."""

from graveler.core.clock import SystemClock
from graveler.core.fanout import Sequential
from graveler.core.settings import hook_settings
from graveler.engine.hooks import Hooks
from graveler.hooks.gate import open_hooks
from tests.hooks.web import Web

SECRET = "s" * 32
STATEMENT = '[{"effect": "allow", "action": ["fs:ReadObject"], "resource": "*"}]'
_ACTION = """
name: guard
on: {pre-commit: {branches: [BRANCH]}}
hooks:
  - {id: first, type: webhook, properties: {url: "http://127.0.0.1:PORT/check"}}
"""


def action(branch: str, web: Web) -> str:
    """The text of a file that asks the web server before each commit on the branch."""
    return _ACTION.replace("BRANCH", branch).replace("PORT", str(web.port))


def hooks_to(web: Web) -> Hooks:
    """Hooks that may call this web server."""
    settings = hook_settings(
        {"GRAVELER_HOOKS_SECRET": SECRET}, (f"127.0.0.1:{web.port}",), loopback=True
    )
    return open_hooks(settings, SystemClock(), Sequential())
