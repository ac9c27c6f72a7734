"""Runs the clients of this folder on a branch of a service of its own, over http and https.

    python -m tests.gateway.by_hand.run          clients for JavaScript; needs node and npm
    python -m tests.gateway.by_hand.run torch    s3torchconnector, over http

It installs the packages below `build/`, and fails if a client does.  The CRT, which
s3torchconnector is built on, trusts only the certificates of the system, so it gets no https here.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.gateway.lake import Lake, lake

HERE = Path(__file__).parent
BUILD = HERE.parents[2] / "build"
TORCH = ("torch==2.13.0", "s3torchconnector==1.5.0")


def javascript() -> list[str]:
    """The command of the clients for JavaScript, installed from the lock."""
    folder = BUILD / "js-clients"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json", "clients.cjs"):
        shutil.copy(HERE / name, folder / name)
    subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=folder, check=True)
    return ["node", str(folder / "clients.cjs")]


def torch() -> list[str]:
    """The command of s3torchconnector, in an environment of its own."""
    folder = BUILD / "torch-clients"
    python = str(folder / "bin" / "python")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    subprocess.run([python, "-m", "pip", "install", "-q", *TORCH], check=True)
    return [python, str(HERE / "torch_client.py")]


def variables(there: Lake, url: str, prefix: str) -> dict[str, str]:
    """The environment of a client."""
    return os.environ | {
        "ENDPOINT": url,
        "ACCESS_KEY": there.key.access_key_id,
        "SECRET_KEY": there.key.secret_access_key,
        "AWS_ACCESS_KEY_ID": there.key.access_key_id,
        "AWS_SECRET_ACCESS_KEY": there.key.secret_access_key,
        "BUCKET": there.repo,
        "PREFIX": f"main/{prefix}/",
        "MANY": "main/many/",
        "NODE_EXTRA_CA_CERTS": str(there.tls.certificate),
        "NO_PROXY": "127.0.0.1",
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.gateway.by_hand.run",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("client", nargs="?", choices=["torch"], help="s3torchconnector alone")
    is_torch = parser.parse_args().client == "torch"
    command = torch() if is_torch else javascript()
    with tempfile.TemporaryDirectory() as folder, lake(Path(folder)) as there:
        urls = {"http": there.url} if is_torch else {"http": there.url, "https": there.tls.url}
        for scheme, url in urls.items():
            print(f"---- {scheme}", flush=True)
            subprocess.run(command, env=variables(there, url, scheme), check=True)


if __name__ == "__main__":
    main()
