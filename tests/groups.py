"""The order of a parallel run: tests that share something costly run in one process, and slow tests
begin first.

A module is such a group: what its tests share is made once, and not in each process.  A name
(`xdist_group`) makes a group of tests of several modules, or of some tests of a module.  A group
with a slow test comes before all groups without one: a slow test that begins last leaves the other
processes idle.

Without this, pytest-xdist would send tests without a name one by one, and after each test it would
look through all that it had sent.  It puts the name of the group behind the name of the test, from
where its scheduler reads it; the pinned version sets an attribute that the pinned pytest does not
read any more, so groups would mean nothing, and each process would make everything for itself.
"""

from typing import Any

import pytest


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """The scheduler of a run by groups; none for another run.  It keeps the order of the tests,
    whatever the options of pytest-xdist say: else groups of many tests would come first."""
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling

    class ByModule(LoadGroupScheduling):
        """Groups are named ones, and the modules of all other tests."""

        def _split_scope(self, nodeid: str) -> str:
            name: str = super()._split_scope(nodeid)
            return nodeid.partition("::")[0] if name == nodeid else name

    config.option.loadscopereorder = False
    return ByModule(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a process of a parallel run by groups: move the slow tests to the beginning, and put the
    name of a group behind the names of its tests."""
    if not config.getoption("loadgroup", default=False):
        return
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    for item in items:
        names = sorted({str(mark.args[0]) for mark in item.iter_markers("xdist_group")})
        suffix = "@" + "_".join(names)
        if names and not item.nodeid.endswith(suffix):
            item._id = type(item._id).parse(item.nodeid + suffix)
