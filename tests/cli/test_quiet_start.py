"""Python looks for no garbage while a service imports its modules, and passes over them later."""

import pytest

from tests.cli.service import environment
from tests.cli.test_root import entered

# Tells on stderr at the end how often Python looked while modules of the service were imported,
# whether it looks again, and whether it passes over what the imports made.
COUNTING = """
import atexit, gc, sys
seen = []
def look(phase, _info):
    module = sys.modules.get({module!r})
    if phase == "start" and module is not None and module.__spec__._initializing:
        seen.append(phase)
gc.callbacks.append(look)
atexit.register(
    lambda: print(len(seen), gc.isenabled(), gc.get_freeze_count() > 10_000, file=sys.stderr)
)
"""
ELSEWHERE = ("--listen", "192.0.2.1:1")  # no address of this machine: refused after the imports


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("graveler.cli.support.service", ("serve", "--store", "lake")),
        ("graveler.cli.support.demo", ("demo", "--store", "lake")),
        ("graveler.cli.support.s3_service", ("gateway", "--stack", "lake", "--bucket", "lake")),
    ],
)
def test_the_collector_waits_for_the_imports_of_a_service(
    module: str, words: tuple[str, ...]
) -> None:
    ran = entered(*words, *ELSEWHERE, before=COUNTING.format(module=module))
    *_, refusal, counts = ran.stderr.splitlines()
    assert (ran.returncode, counts) == (1, "0 True True")
    assert "this machine has no such address" in refusal


def test_wrong_settings_are_refused_before_the_service_is_imported() -> None:
    ran = entered(
        *("serve", "--store", "lake"),
        after="print('graveler.cli.support.service' in sys.modules, file=sys.stderr)",
        env=environment(None) | {"GRAVELER_ACCESS_KEY_ID": "KEY"},
    )
    refusal, is_imported = ran.stderr.splitlines()
    assert (ran.returncode, is_imported) == (1, "False")
    assert "set both" in refusal
