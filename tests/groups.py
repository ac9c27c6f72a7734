"""The order of a parallel run: slow tests begin first, and those that share something costly, which
is what an `xdist_group` names, run in one process.

A slow test that begins last leaves the other processes idle.

pytest-xdist puts the name of the group behind the name of the test, from where its scheduler reads
it; the pinned version sets an attribute that the pinned pytest does not read any more, so groups
meant nothing, and each process made everything for itself.
"""

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a process of a parallel run by groups: move the slow tests to the beginning, and name the
    group of every test that has one."""
    if not config.getoption("loadgroup", default=False):
        return
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    for item in items:
        names = sorted({str(mark.args[0]) for mark in item.iter_markers("xdist_group")})
        suffix = "@" + "_".join(names)
        if names and not item.nodeid.endswith(suffix):
            item._id = type(item._id).parse(item.nodeid + suffix)
