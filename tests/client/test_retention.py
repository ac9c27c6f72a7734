"""Retention rules from Python, through a served store."""

import pytest

from graveler.client import Session, connect, retention
from graveler.errors import Internal, NotFound
from tests.client.scripted import Said, scripted


def test_rules_are_replaced_and_read(session: Session, repo: str) -> None:
    nothing: retention.Rules = {"branches": [], "default_retention_days": 0}
    assert retention.get(session, repo) == nothing
    rules: retention.Rules = {
        "branches": [{"branch_id": "main", "retention_days": 90}],
        "default_retention_days": 30,
    }
    retention.replace(session, repo, rules)
    assert retention.get(session, repo) == rules
    with pytest.raises(NotFound):
        retention.get(session, "nowhere")
    with pytest.raises(NotFound):
        retention.replace(session, "nowhere", rules)


def test_another_answer_is_no_rule() -> None:
    with scripted([Said(200, b"[]")]) as script, pytest.raises(Internal):
        retention.get(connect(script.url, "key", "secret"), "lake")
