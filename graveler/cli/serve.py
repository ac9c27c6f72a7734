"""`graveler serve`: one embedded store over HTTP, until SIGINT or SIGTERM."""

import os
import sys
from dataclasses import replace
from typing import Final

from graveler.assembly import Embedded
from graveler.auth.credentials import NewCredential
from graveler.cli import administrator
from graveler.cli.host import Running
from graveler.cli.options import Listen, ServeOptions
from graveler.cli.service import run
from graveler.clock import SystemIds
from graveler.records import ABSENT
from graveler.settings import AdministratorKeys

_SETUP_TOKEN_LENGTH: Final = 32
_UNSYNCED: Final = (
    "graveler: warning: sync is off: if the machine loses power or its system crashes, "
    "acknowledged uploads, commits and the whole store may be lost; for tests only"
)


def serve(options: ServeOptions, keys: AdministratorKeys) -> int:
    """Serve until interrupted.  `keys`: of the administrator.  Returns 0 after a graceful stop."""
    if not options.synced:
        print(_UNSYNCED, file=sys.stderr, flush=True)
    options = replace(options, setup_token=SystemIds().unique(_SETUP_TOKEN_LENGTH))

    def prepare(store: Embedded, listen: Listen) -> None:
        url = options.front.public_url or listen.url
        _prepare(store, keys, url, options.setup_token)

    def on_ready(running: Running) -> None:
        served = f"API, page and S3; store {options.store}, process {os.getpid()}"
        if options.front.public_url:
            served = f"for clients {options.front.public_url}; {served}"
        print(f"graveler: ready at {running.listen.url} ({served})", flush=True)

    run(options, prepare, on_ready)
    print("graveler: stopped", flush=True)
    return 0


def _prepare(store: Embedded, keys: AdministratorKeys, url: str, setup_token: str) -> None:
    if keys.given:
        credential = NewCredential(keys.access_key_id, keys.secret_access_key)
        if administrator.ensure(store, credential):
            print("graveler: the administrator now has the credentials of the environment")
    elif administrator.account(store) is ABSENT:
        print(
            f"graveler: no administrator yet: in another terminal: graveler login {url} --setup\n"
            f"graveler: it asks for this setup token: {setup_token}",
            file=sys.stderr,
        )
