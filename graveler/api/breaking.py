"""Endpoints of break parameters: where ranges of a repository end."""

from graveler.api import answers, shapes
from graveler.api.answers import Answer
from graveler.api.service import Call
from graveler.engine import break_parameters


def read(call: Call) -> Answer:
    return answers.json(shapes.breaks(break_parameters.read(call.ports, call.repo)))


def swap(call: Call) -> Answer:
    body = call.body
    seen, wanted = (shapes.parsed_breaks(body[name]) for name in ("expected", "breaks"))
    break_parameters.swap(call.ports, call.repo, seen, wanted, force=body.get("force", False))
    return answers.json(shapes.breaks(wanted))


ENDPOINTS = {"getBreakParameters": read, "setBreakParameters": swap}
