"""What a terminal shows of the commands that need AWS, as a reviewed transcript
(tests/cli/test_transcripts.py)."""

from collections.abc import Callable
from pathlib import Path

from graveler.core.aws import AwsSession
from tests.aws.lake import make_lake
from tests.cli.commands import Client
from tests.cli.conftest import user
from tests.cli.test_transcripts import check, interrupted

__all__ = ["user"]  # a fixture


def test_the_gateway_and_the_events_of_a_bucket(
    engine: str, session: AwsSession, fresh_name: Callable[[], str], user: Client, tmp_path: Path
) -> None:
    name = make_lake(session, fresh_name()).name
    keys = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "test")
    aws = {**keys, "AWS_ENDPOINT_URL": engine, "AWS_DEFAULT_REGION": "us-east-1"}

    def run(line: str) -> tuple[int, str]:
        code, text = interrupted(user, line.replace("STACK", name), tmp_path, aws)
        return code, text.replace(name, "STACK")

    check("aws.txt", run)
