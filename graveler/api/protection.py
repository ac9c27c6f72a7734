"""Endpoints of branch protection rules; the `internal` ones are those of older clients."""

from typing import Literal

from graveler.api import answers
from graveler.api.answers import NO_CONTENT, Answer
from graveler.api.service import Call
from graveler.engine.repositories import rules
from graveler.records import ABSENT, Absent


def get_rules(call: Call) -> Answer:
    stored = rules.get(call.repo)
    shape = [{"pattern": pattern} for pattern in stored.patterns]
    return answers.json(shape, 200, (answers.text_header(b"etag", stored.tag),))


def set_rules(call: Call) -> Answer:
    """Replace all rules, if they are those that `If-Match` names: their entity tag as `getRules`
    answered it, the empty text for no rules."""
    patterns = [rule["pattern"] for rule in call.body]
    rules.set_all(call.repo, patterns, _if_match(call))
    return NO_CONTENT


def _if_match(call: Call) -> str | Literal[Absent.ABSENT]:
    if b"if-match" not in call.headers:
        return ABSENT
    return call.header(b"if-match").strip('" ')


def add_rule(call: Call) -> Answer:
    rules.add(call.repo, call.body["pattern"])
    return NO_CONTENT


def remove_rule(call: Call) -> Answer:
    rules.remove(call.repo, call.body["pattern"])
    return NO_CONTENT


def check_preflight(call: Call) -> Answer:
    """Whether the caller may set rules: the permission check before this endpoint decides."""
    assert call.repo.id == call.arguments["repository"], "the repository exists"
    return NO_CONTENT
