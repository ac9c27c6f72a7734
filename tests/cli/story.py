"""The tutorial, told with client commands alone against any server."""

import os
from pathlib import Path

import pytest

from tests.cli.commands import Client, play

GOLDEN = Path(__file__).parent / "golden" / "tutorial.txt"
FILES = {
    "january/orders.csv": "id,amount\n1,10\n",
    "january/customers.csv": "id,name\n1,Ada\n",
    "wrong.csv": "id,amount,note\n1,-10,x\n2,-20,y\n",
    "prices.csv": "id,amount\n1,11\n",
    "taxes.csv": "id,amount\n1,12\n",
}


def tell(user: Client, namespace: str, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Run the story in a folder, and compare what it prints with the reviewed transcript.
    `GRAVELER_TRANSCRIPTS=write` writes the transcript anew."""
    for name, text in FILES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    patch.chdir(folder)

    def run(line: str) -> tuple[int, str]:
        result = user.line(line.replace("NAMESPACE", namespace))
        return result.code, (result.out + result.err).replace(namespace, "NAMESPACE")

    now = play(GOLDEN, run)
    if os.environ.get("GRAVELER_TRANSCRIPTS") == "write":
        GOLDEN.write_text(now, encoding="utf-8")
    assert GOLDEN.read_text(encoding="utf-8") == now


def signed_in(user: Client, url: str, key: str, secret: str) -> None:
    """Sign the user in as a person would."""
    words = ("login", url, "--access-key-id", key, "--secret-stdin")
    result = user.run(*words, input=f"{secret}\n".encode())
    assert result.code == 0, result
