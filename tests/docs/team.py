"""Follows docs/how-to/team.md, against whatever serves."""

import json
import os
import re
import socket
import subprocess
from typing import Any, NamedTuple

from tests import waiting
from tests.docs import examples

DOCUMENT = "docs/how-to/team.md"
SIGNING_KEY = "a-key-that-signs-what-hooks-send"
HERE = "http://127.0.0.1:8000"
EXPECTED = """\
upload to main: 403 cannot write to protected branch
commit to main: 403 permission missing: fs:CreateCommit on BRANCH
merge into main: 403 permission missing: fs:CreateCommit on BRANCH
change the check: 403 permission missing: fs:WriteObject on FILE
merge of february: 412 pre-merge hook aborted, run id RUN: \
hook 'columns' of action 'tables' failed: request failed (status code: 403)
february is open
february is merged
emil reads ['2026/01.csv', '2026/02.csv']
emil's branch: 403 permission missing: fs:CreateBranch on OTHER
dora - Merge 'february' into 'main'
cleo - Add the header
cleo - Load 2026/02.csv
pre-merge completed
pre-merge failed
pre-merge completed
"""
_ARN = "arn:lakefs:fs:::repository/sales"
_SHORT = {
    f"{_ARN}/branch/main": "BRANCH",
    f"{_ARN}/object/_lakefs_actions/tables.yaml": "FILE",
    f"{_ARN}/branch/mine": "OTHER",
}


class Place(NamedTuple):
    """What serves: its URL without `/api/v1`, a key, a namespace, the port of the check."""

    url: str
    key: str
    secret: str
    namespace: str
    port: int


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def follow(place: Place, *, pause: bool) -> dict[str, Any]:
    """Run the blocks.  Returns what they defined.  `pause`: wait until a rule is in force in all
    processes, as the document says."""
    replaced = {
        HERE: place.url,
        "MYKEY": place.key,
        "a-secret-of-at-least-32-characters": place.secret,
        "local://sales/": place.namespace,
        "8001": str(place.port),
    }
    if not pause:
        replaced["time.sleep(10)"] = "pass"
    names: dict[str, Any] = {}
    examples.run(DOCUMENT, replaced, names)
    return names


def printed(out: str) -> str:
    """What the blocks printed, with short names for what is long or random."""
    for arn, short in _SHORT.items():
        out = out.replace(arn, short)
    return re.sub(r"run id '\w+'", "run id RUN", out)


def rights(place: Place, client: Any) -> list[bool]:
    """The answers to the question that the document asks with curl, for a client's key."""
    text = (examples.ROOT / DOCUMENT).read_text(encoding="utf-8")
    (command,) = re.findall(r"^    (curl .+)$", text, re.MULTILINE)
    assert HERE + "/api/v1" in command
    config = client.config
    ran = subprocess.run(
        ["sh", "-c", command.replace(HERE + "/api/v1", config.host) + " --silent --fail"],
        env={**os.environ, "KEY": config.username, "SECRET": config.password},
        capture_output=True,
        check=True,
        timeout=waiting.PATIENCE_SECONDS,
    )
    return [result["allowed"] for result in json.loads(ran.stdout)["results"]]
