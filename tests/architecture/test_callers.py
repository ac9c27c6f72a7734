"""Every function, class and method of the product has a caller in the product, or a reason here."""

from functools import cache

import pytest

from tests.architecture.callers import Definition, dead
from tests.architecture.source import Module, modules, parse

# One process parses the tree for all tests of the group.
pytestmark = pytest.mark.xdist_group("syntax trees")

CALLERS = ("graveler", "functions", "infra", "layers")
TESTING = "graveler/testing/"

# What users import, what frameworks call, and what stands for tests to compare with.
ALLOWED = {
    "graveler.api.server:_Connection.eof_received": "the event loop calls it",
    "graveler.api.server:BoundedProtocol.on_header": "the parser calls it",
    "graveler.api.server:BoundedProtocol.on_headers_complete": "the parser calls it",
    **{
        f"graveler.cli.command:{name}": "click calls it"
        for name in (
            "ExampleCommand.format_epilog",
            "ClientCommand.format_options",
            "Group.format_commands",
            "Tables.get_help",
        )
    },
    "graveler.block.counter:ObservedBlocks": "tests and benchmarks count requests by it",
    "graveler.cli.rows:_Remote.readable": "readers of files call it",
    "graveler.cli.rows:_Remote.seekable": "readers of files call it",
    "graveler.client.bulk:status": "users call it",
    **{
        f"graveler.client.answer_heads:PlainResponse.{name}": "`http.client` calls it"
        for name in ("_read_and_discard_trailer", "_read_next_chunk_size")
    },
    "graveler.spark.files.parquet:Remote.readable": "readers of files call it",
    "graveler.spark.files.parquet:Remote.seekable": "readers of files call it",
    "graveler.spark.datasource:PruningReader.pushFilters": "Spark calls it",
    "graveler.spark.core.join:here": "sews without a cluster, for tests to compare with",
    "graveler.spark.datasource:source_of": "`register` imports its module late",
    "graveler.spark.cluster.workers:_CachedImporter.invalidate_caches": "Python's import calls it",
    "graveler.events.intake:run": "simulations commit batches by it",
    "graveler.engine.commits.merge:conflicts": "simulations check merges by it",
    "graveler.engine.commits.merge:preview": "simulations check merges by it",
    "graveler.hooks.egress:_Received.readable": "readers of files call it",
    "graveler.identity:file_id": "the rule that the fast `committed.hash` is compared with",
    "graveler.kv.dynamodb_table:create_table": "tests make tables by it",
    "graveler.refs.graph.graph:all_merge_bases": "the rule `merge_base` is compared with",
}


def hand_written(*folders: str) -> list[Module]:
    return [module for module in modules(*folders) if not module.path.startswith(TESTING)]


@cache
def without_caller() -> list[Definition]:
    """What nothing of the product names."""
    return dead(hand_written("graveler"), hand_written(*CALLERS))


def test_everything_has_a_caller() -> None:
    lines = [
        f"{each.path}:{each.line}: {each.name}: nothing of the product calls it; remove it"
        for each in without_caller()
        if each.subject not in ALLOWED
    ]
    assert not lines, "\n".join(["", *lines])


def test_every_allowed_one_is_there_and_needs_it() -> None:
    found = {each.subject for each in without_caller()}
    assert set(ALLOWED) - found == set()


def test_dead_code_is_noticed() -> None:
    product = [
        parse(
            "graveler/x.py",
            "def f(): f()\ndef g(): ...\ndef h(): ...\ndef get(): ...\n"
            "class C:\n  def used(self): ...\n  def unused(self): ...\n",
        ),
        parse(
            "graveler/y.py",
            "from graveler.x import g as other, h\nfrom graveler import x\n"
            "C = x.C\ndef run(kv): other(), kv.get(), C().used()\nrun(0)\n",
        ),
    ]
    assert [each.name for each in dead(product, product)] == ["f", "h", "get", "C.unused"]
