"""Sandboxes do to a function what its service does."""

import threading
from pathlib import Path

import pytest

from tests.functions.sandbox import (
    PAYLOAD_BYTES_MAX,
    Function,
    FunctionFailed,
    PayloadTooLarge,
    Sandbox,
    SandboxLost,
)
from tests.waiting import until

CODE = """
import pathlib, time
calls = 0
def handle(event, context):
    global calls
    calls += 1
    if "touch" in event:
        pathlib.Path(event["touch"]).touch()
    if "sleep" in event:
        time.sleep(event["sleep"])
    if "fail" in event:
        raise ValueError(event["fail"])
    left = context.get_remaining_time_in_millis()
    return {"calls": calls, "left": left, "text": "x" * event.get("bytes", 0)}
"""


def function(folder: Path, code: str = CODE, seconds: float = 29.0) -> Function:
    (folder / "handler.py").write_text(code)
    return Function(folder, seconds=seconds)


def test_a_sandbox_answers_event_after_event_in_one_process(tmp_path: Path) -> None:
    with Sandbox(function(tmp_path)) as sandbox:
        answers = [sandbox.invoke({}) for _ in range(3)]
        assert [each["calls"] for each in answers] == [1, 2, 3]
        assert all(20_000 < each["left"] <= 29_000 for each in answers)
        with pytest.raises(FunctionFailed, match="no such thing"):
            sandbox.invoke({"fail": "no such thing"})
        assert sandbox.invoke({})["calls"] == 5
        assert sandbox.starts == 1


def test_events_and_answers_of_more_than_six_megabytes_are_refused(tmp_path: Path) -> None:
    with Sandbox(function(tmp_path)) as sandbox:
        with pytest.raises(PayloadTooLarge, match="event"):
            sandbox.invoke({"text": "x" * PAYLOAD_BYTES_MAX})
        assert sandbox.starts == 0
        assert len(sandbox.invoke({"bytes": PAYLOAD_BYTES_MAX - 100})["text"]) > 6_000_000
        with pytest.raises(PayloadTooLarge, match="answer"):
            sandbox.invoke({"bytes": PAYLOAD_BYTES_MAX})
        assert sandbox.invoke({})["calls"] == 1


def test_a_late_process_is_killed_and_replaced(tmp_path: Path) -> None:
    with Sandbox(function(tmp_path, seconds=4.0)) as sandbox:
        assert sandbox.invoke({})["calls"] == 1
        with pytest.raises(SandboxLost, match="timed out"):
            sandbox.invoke({"sleep": 60})
        assert sandbox.invoke({})["calls"] == 1
        assert sandbox.starts == 2


def test_a_process_may_be_killed_at_any_moment(tmp_path: Path) -> None:
    with Sandbox(function(tmp_path)) as sandbox:
        begun = tmp_path / "begun"

        def kill() -> None:
            until(begun.exists, "the function has begun")
            sandbox.kill()

        killing = threading.Thread(target=kill)
        killing.start()
        with pytest.raises(SandboxLost, match="killed"):
            sandbox.invoke({"touch": str(begun), "sleep": 600})
        killing.join()
        sandbox.kill()
        assert sandbox.invoke({})["calls"] == 1


BREAKS_OFF = """
import os, socket, time
def handle(event, context):
    host, port = os.environ["AWS_LAMBDA_RUNTIME_API"].split(":")
    line = f"POST /2018-06-01/runtime/invocation/{context.aws_request_id}/response HTTP/1.1"
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(f"{line}\\r\\nContent-Length: 100\\r\\n\\r\\n{{}}".encode())
    time.sleep(0.5)
    os._exit(1)
"""


def test_half_an_answer_is_none(tmp_path: Path) -> None:
    with Sandbox(function(tmp_path, BREAKS_OFF)) as sandbox, pytest.raises(SandboxLost):
        sandbox.invoke({})


def test_code_that_cannot_be_loaded_says_so(tmp_path: Path) -> None:
    with (
        Sandbox(function(tmp_path, "import nowhere_to_be_found")) as sandbox,
        pytest.raises(FunctionFailed, match="nowhere_to_be_found"),
    ):
        sandbox.start()
