"""One hook: what it sends, when it has passed, what its log says."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from graveler.core import limits
from graveler.core.errors import Refused, Unavailable
from graveler.core.web import Outgoing, Reply
from graveler.hooks import calls
from graveler.hooks.actions import Hook, parse
from graveler.hooks.calls import Caller, HookMessage, Outcome, Variables
from tests.support.clockwork import TickingClock

SECRET = 'p"ss/word&more'
AIRFLOW = """
on: {post-commit: }
hooks:
  - id: dag
    type: airflow
    properties:
      url: https://airflow.example.com/
      dag_id: clean
      username: me
      password: "{{ ENV.LAKEFSACTION_PASSWORD }}"
      dag_conf: {depth: {deeper: 1}}
      wait_for_dag: WAITS
      timeout: 10s
"""
WEBHOOK = """
on: {post-commit: }
hooks:
  - id: web
    type: webhook
    properties:
      url: https://x.example/y?z=1
      query_params: {key: "{{ENV.LAKEFSACTION_PASSWORD}}", many: [a b, c]}
      headers:
        Authorization: "Bearer {{ ENV.LAKEFSACTION_PASSWORD }}"
        x-graveler-signature: forged
      timeout: 5s
"""


class Side:
    """Answers one request after the other."""

    def __init__(self, *answers: Reply | Callable[[Outgoing], Reply]) -> None:
        self.answers = list(answers)
        self.requests: list[Outgoing] = []
        self.seconds: list[float] = []

    def send(self, request: Outgoing, seconds: float) -> Reply:
        self.requests.append(request)
        self.seconds.append(seconds)
        answer = self.answers.pop(0)
        return answer if isinstance(answer, Reply) else answer(request)


def _hook(text: str) -> Hook:
    return parse("a.yaml", text.encode()).hooks[0]


def _run(text: str, side: Side, seconds: float = 60) -> Outcome:
    variables = Variables({"LAKEFSACTION_PASSWORD": SECRET, "OTHER": "o"})
    caller = Caller(side, TickingClock(), variables, b"k" * 32)
    message = HookMessage("run/hook", {"event_type": "post-commit"})
    return calls.run(caller, _hook(text), message, seconds)


def _state(state: str) -> Reply:
    return Reply(200, json.dumps({"dag_run_id": "run/1", "state": state}).encode())


def test_a_webhook_sends_its_parameters_and_headers() -> None:
    side = Side(Reply(204, b""))
    outcome = _run(WEBHOOK, side)
    assert outcome.passed and not outcome.reason
    (request,) = side.requests
    assert request.url == "https://x.example/y?z=1&key=p%22ss%2Fword%26more&many=a+b&many=c"
    assert request.headers["Authorization"] == f"Bearer {SECRET}"
    signatures = [name for name in request.headers if name.lower() == "x-graveler-signature"]
    assert len(signatures) == 1 and request.headers[signatures[0]].startswith("sha256=")
    assert side.seconds == [5.0]


def test_a_hook_gets_no_more_time_than_is_left() -> None:
    side = Side(Reply(204, b""))
    _run(WEBHOOK, side, seconds=2)
    assert side.seconds == [2]
    outcome = _run(WEBHOOK, side, seconds=0)
    assert (outcome.passed, outcome.reason) == (False, "no time is left for the hook")


@pytest.mark.parametrize("status", [100, 199, 300, 302, 400, 404, 500])
def test_only_2xx_passes(status: int) -> None:
    outcome = _run(WEBHOOK, Side(Reply(status, b"secret of the other side")))
    assert not outcome.passed
    assert outcome.reason == f"request failed (status code: {status})"
    assert "secret of the other side" in outcome.log


def _failing(error: Exception) -> Callable[[Outgoing], Reply]:
    def fail(_: Outgoing) -> Reply:
        raise error

    return fail


@pytest.mark.parametrize("error", [Refused("not there"), Unavailable("not now")])
def test_what_cannot_be_sent_has_failed(error: Exception) -> None:
    outcome = _run(WEBHOOK, Side(_failing(error)))
    assert (outcome.passed, outcome.reason) == (False, str(error))


@pytest.mark.parametrize(
    "form",
    [SECRET, json.dumps(SECRET), "p%22ss%2Fword%26more", json.dumps({"a": [f"x{SECRET}y"]})],
)
def test_no_form_of_a_secret_is_logged(form: str) -> None:
    log = _run(WEBHOOK, Side(Reply(200, f"you said {form}".encode()))).log
    assert "ss/word" not in log and "ss%2Fword" not in log
    assert "{{ ENV.LAKEFSACTION_PASSWORD }}" in log
    assert "you said" in log and "[hidden]" in log


# ---- airflow -------------------------------------------------------------------------------------


def test_a_run_of_airflow_is_created() -> None:
    side = Side(_state("queued"))
    outcome = _run(AIRFLOW.replace("WAITS", "false"), side)
    assert outcome.passed
    (request,) = side.requests
    assert (request.method, request.url) == (
        "POST",
        "https://airflow.example.com/api/v1/dags/clean/dagRuns",
    )
    token = base64.b64encode(f"me:{SECRET}".encode()).decode()
    assert request.headers["Authorization"] == f"Basic {token}"
    conf: dict[str, Any] = json.loads(request.body)["conf"]
    assert conf == {"depth": {"deeper": 1}, "lakeFS_event": {"event_type": "post-commit"}}


def test_the_token_of_airflow_is_not_logged() -> None:
    token = base64.b64encode(f"me:{SECRET}".encode()).decode()
    log = _run(AIRFLOW.replace("WAITS", "false"), Side(Reply(500, token.encode()))).log
    assert token not in log


@pytest.mark.parametrize(
    ("states", "reason"),
    [
        (["success"], ""),
        (["queued", "running", "success"], ""),
        (["running", "failed"], "the run of the dag failed"),
        (["running"] * 30, "the run of the dag did not end in time"),
    ],
)
def test_a_hook_may_wait_for_the_run(states: list[str], reason: str) -> None:
    side = Side(_state("queued"), *map(_state, states))
    outcome = _run(AIRFLOW.replace("WAITS", "true"), side)
    assert outcome.reason == reason
    assert {request.url for request in side.requests[1:]} == {
        "https://airflow.example.com/api/v1/dags/clean/dagRuns/run%2F1"
    }
    assert {request.method for request in side.requests[1:]} == {"GET"}
    assert all(seconds <= 10 for seconds in side.seconds)


@pytest.mark.parametrize(
    ("replies", "reason"),
    [
        ([Reply(409, b"")], "request failed (status code: 409)"),
        ([Reply(200, b"no json")], "answer is not JSON"),
        ([Reply(200, b"[" * limits.hook_answer_length_bytes_max)], "answer is not JSON"),
        ([Reply(200, b"[]")], "answer has no text dag_run_id"),
        ([Reply(200, b'{"dag_run_id": 3}')], "answer has no text dag_run_id"),
        ([Reply(200, rb'{"dag_run_id": "\ud800"}')], "answer has no text dag_run_id"),
        ([_state("queued"), Reply(200, rb'{"state": "\udfff"}')], "answer has no text state"),
        ([_state("queued"), Reply(500, b"")], "request failed (status code: 500)"),
        ([_state("queued"), Reply(200, b"{}")], "answer has no text state"),
    ],
)
def test_an_answer_that_is_not_airflow_fails(replies: list[Reply], reason: str) -> None:
    outcome = _run(AIRFLOW.replace("WAITS", "true"), Side(*replies))
    assert (outcome.passed, outcome.reason) == (False, reason)


def test_variables_without_the_prefix_are_none() -> None:
    text = WEBHOOK.replace("LAKEFSACTION_PASSWORD", "OTHER")
    side = Side()
    assert _run(text, side).reason == "variable is not allowed for actions: name=OTHER"
    assert side.requests == []
