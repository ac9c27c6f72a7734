"""docs/measured/cost.md says what the code does, and what was promised of it holds."""

import ast

import pytest

from benchmarks import cost, cost_gateway
from benchmarks.cost_operations import measured
from benchmarks.metering import Spent
from benchmarks.prices import LAKEFS
from benchmarks.written import ROOT


@pytest.fixture(scope="module")
def counted() -> dict[str, Spent]:
    return measured()


def test_the_document_is_up_to_date(
    counted: dict[str, Spent], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost, "measured", lambda: counted)  # counted once for all tests
    written = cost.DOCUMENT.read_text(encoding="utf-8")
    assert written == cost.document(), "run: python -m benchmarks.cost --write-docs"


def test_nothing_takes_more_requests_than_lakefs(counted: dict[str, Spent]) -> None:
    for name, peer in LAKEFS.items():
        spent = counted[name]
        assert spent.kv_requests <= peer.dynamodb, name
        assert spent.s3_writes <= peer.s3, name
        assert spent.s3_reads == 0, name


@pytest.mark.parametrize(
    "name", ["upload", "delete", "create branch", "commit of 100", "merge of 1"]
)
def test_what_writes_takes_fewer(counted: dict[str, Spent], name: str) -> None:
    assert counted[name].kv_requests < LAKEFS[name].dynamodb


def test_a_row_of_a_batch_is_a_unit(counted: dict[str, Spent]) -> None:
    """The meter against sums by hand: 100 rows deleted, four records written or removed; a commit
    has a row in the table of commits, too."""
    assert counted["clean-up after a commit of 100"].writes == 104
    assert counted["commit of 100"].writes == 6


def test_a_link_looks_at_the_object(counted: dict[str, Spent]) -> None:
    assert counted["link"].s3_reads == 1 and counted["stage"].s3_reads == 0
    assert counted["link"].kv_requests == counted["stage"].kv_requests + 1


def test_authorization_costs_nothing_while_rights_are_known(counted: dict[str, Spent]) -> None:
    """Rights: the user; then its groups; then their policies.  A refresh reads all at once."""
    costs = {
        "rights known": {},
        "rights too old": {"BatchGet": 1},
        "rights not known": {"BatchGet": 3},
        "first request with a key": {"Get": 1, "BatchGet": 3},
    }
    rows = {"rights known": 0, "rights too old": 12, "rights not known": 12}
    for name, requests in costs.items():
        spent = counted[f"authorization, {name}"]
        assert spent.requests == requests, name
        assert sum(spent.verbs.values()) == spent.kv_requests, name
        assert (spent.reads, spent.writes) == (rows.get(name, 13), 0), name


def metrics_of(function: str) -> list[str]:
    """The metrics of a function whose names are literal."""
    tree = ast.parse((ROOT / "functions" / function / "handler.py").read_text(encoding="utf-8"))
    return [
        str(each.args[0].value)
        for each in ast.walk(tree)
        if isinstance(each, ast.Call)
        and isinstance(each.func, ast.Attribute)
        and each.func.attr == "add_metric"
        and isinstance(each.args[0], ast.Constant)
    ]


def test_every_metric_of_the_janitor_is_in_the_table() -> None:
    written = metrics_of("janitor")
    (line,) = [each for each in cost.idle_lines() if each.what == "metrics of the janitor"]
    assert "JobsRevived" in written and line.amount == str(len(set(written)))


def test_every_metric_of_the_other_functions_is_counted() -> None:
    """What an event became is part of a name."""
    names = {each for function in ("api", "events", "worker") for each in metrics_of(function)}
    events = {"EventsStaged", "EventsKnown", "EventsOld"}
    assert cost.deployed()["busy_metrics"] == len({*names, *events})
    page = cost.DOCUMENT.read_text(encoding="utf-8")
    assert f"up to {len({*names, *events})} metrics more" in page


def test_no_page_advises_what_the_template_forbids() -> None:
    """Functions are reached through the gateway alone."""
    for page in (ROOT / "docs").rglob("cost*.md"):
        assert "function URL" not in page.read_text(encoding="utf-8")


def test_the_promises_hold(counted: dict[str, Spent]) -> None:
    for goal in cost.goals(counted):
        assert goal.found <= goal.limit, f"{goal.what}: {goal.found:.3f} {dict(goal.parts)}"


def test_the_wrappers_count_the_same_verbs(counted: dict[str, Spent]) -> None:
    """One call of the port is one request, but for the batches that DynamoDB takes in parts."""
    for name in LAKEFS:
        assert sum(counted[name].verbs.values()) == counted[name].kv_requests, name


def test_the_idle_gateway_is_what_its_template_deploys() -> None:
    """Half a processor, 2 GB and a load balancer for 730 hours, by hand; and what the page of
    causes says of the sum."""
    charges = {each.what: each.dollars for each in cost_gateway.idle()}
    assert charges["Fargate, processors"] == pytest.approx(0.5 * 730 * 0.04048)
    assert charges["Fargate, memory"] == pytest.approx(2 * 730 * 0.004445)
    assert charges["network load balancer"] == pytest.approx(730 * 0.0225)
    text = (ROOT / "docs" / "explanation" / "cost.md").read_text(encoding="utf-8")
    assert f"about {sum(charges.values()):.0f} USD a month" in text
