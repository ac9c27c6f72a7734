"""Endpoints of the break parameters, which decide where ranges of a repository end."""

from graveler import break_json
from graveler.api import answers
from graveler.api.answers import Answer
from graveler.api.service import Call
from graveler.engine.repositories import break_parameters


def read(call: Call) -> Answer:
    return answers.json(break_json.told(break_parameters.read(call.repo)))


def swap(call: Call) -> Answer:
    body = call.body
    seen, new = (break_json.parsed(body[name]) for name in ("expected", "breaks"))
    break_parameters.swap(call.repo, seen, new, force=body.get("force", False))
    return answers.json(break_json.told(new))
