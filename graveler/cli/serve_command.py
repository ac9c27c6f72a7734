"""The arguments of `graveler serve` and `graveler demo`.

`--help` imports this module, so slow modules are imported where they are used.
"""

from pathlib import Path
from typing import Any, Final

import click

from graveler import limits
from graveler.cli.arguments import Checked
from graveler.cli.command import operator
from graveler.cli.options import (
    FOLDER,
    INSECURE_HTTP,
    LISTEN,
    DemoOptions,
    Listen,
    S3Options,
    ServeOptions,
    parse_audit_mib,
    proxy,
    rate,
    s3,
)
from graveler.cli.quiet_start import quiet_start
from graveler.cli.subject import STORE_VARIABLE
from graveler.http import front
from graveler.settings import administrator_keys, environment, hook_settings, identity_settings

_STORE: Final = click.option(
    "--store",
    type=FOLDER,
    required=True,
    envvar=STORE_VARIABLE,
    metavar="DIR",
    help=f"the folder of the store ({STORE_VARIABLE})",
)
_ALLOWED_HOST: Final = click.option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="another host name at which clients may log in or set up (repeatable; IP addresses, "
    "localhost and the host of the public URL are always allowed)",
)
_HOOKS_ALLOW: Final = click.option(
    "--hooks-allow",
    multiple=True,
    metavar="HOST[:PORT]",
    help="a host that the hooks of repositories may reach by https (repeatable; needs "
    "GRAVELER_HOOKS_SECRET; default: none, and action files have no effect)",
)
_HOOKS_ALLOW_LOOPBACK: Final = click.option(
    "--hooks-allow-loopback",
    is_flag=True,
    help="for local tests: allowed hosts may be addresses of this machine, also by http",
)


@operator(
    "serve",
    examples=(
        "graveler serve --store lake                    # http://127.0.0.1:8000",
        "graveler serve --store lake --listen 127.0.0.1:9000 --import-root /data",
        "graveler serve --store lake --public-url https://lake.example --trusted-proxy 10.0.0.0/8",
        "graveler serve --store lake --collect-hours 24",
    ),
)
@_STORE
@LISTEN
@INSECURE_HTTP
@click.option(
    "--import-root",
    "import_roots",
    type=FOLDER,
    multiple=True,
    metavar="DIR",
    help="a folder that imports may read (repeatable; without it: no imports)",
)
@click.option(
    "--collect-hours",
    type=int,
    default=0,
    metavar="N",
    help="collect garbage every N hours, like `graveler gc --delete` (default: never)",
)
@click.option(
    "--commit-rows-max",
    type=int,
    default=0,
    metavar="N",
    help="commit more than N uncommitted rows only with Spark (default: no limit)",
)
@click.option(
    "--sync",
    type=click.Choice(["on", "off"]),
    default="on",
    help="off: for tests on throw-away data; nothing is synced, so a loss of power or a crash of "
    "the system may lose acknowledged uploads and commits, or the whole store (default: on)",
)
@rate("no limit")
@click.option(
    "--audit-mib-max",
    "audit_bytes_max",
    type=Checked("N", parse_audit_mib),
    default=str(limits.audit_bytes_max >> 20),
    metavar="N",
    help="keep at most N MiB of the audit trail; the oldest files go first (default: "
    f"{limits.audit_bytes_max >> 20})",
)
@proxy
@_ALLOWED_HOST
@s3
@_HOOKS_ALLOW
@_HOOKS_ALLOW_LOOPBACK
def serve(store: Path, listen: Listen, **more: Any) -> int:
    """Serve the store in a folder over HTTP until SIGINT or SIGTERM.

    A folder that does not exist or is empty becomes a new store.  One with other files is refused.
    If GRAVELER_ACCESS_KEY_ID and GRAVELER_SECRET_ACCESS_KEY are set, they are the administrator's
    credentials.  Otherwise `graveler login URL --setup` creates them.

    S3 clients reach the store at the same URL, with the same keys: REPOSITORY is the bucket and
    BRANCH/PATH the key, with addresses in path style unless --s3-domain is given.
    """
    before = front.Front(
        more["public_url"] or "",
        more["trusted_proxies"],
        more["allowed_hosts"],
        cors_origins=more["cors_origins"],
    )
    host = front.host_of(before.public_url.partition("://")[2])
    hooks = hook_settings(environment(), more["hooks_allow"], loopback=more["hooks_allow_loopback"])
    s3_options = S3Options(more["s3_domains"], more["s3_signature_v2"])
    s3_options.check(listen, before)
    options = ServeOptions(
        store,
        listen,
        more["import_roots"],
        more["collect_hours"],
        more["commit_rows_max"],
        before,
        hooks=hooks,
        identities=identity_settings(environment(), host),
        audit_bytes_max=more["audit_bytes_max"],
        s3=s3_options,
        insecure_http=more["insecure_http"],
        user_requests_per_second=more["user_requests_per_second"],
        synced=more["sync"] == "on",
    )
    keys = administrator_keys(environment())
    with quiet_start():  # what is refused so far is refused at once
        from graveler.cli import serve as service

    return service.serve(options, keys)


@operator(
    "demo",
    examples=(
        "graveler demo --store sample",
        "graveler demo --store sample --once            # tell the story, and end",
    ),
)
@_STORE
@LISTEN
@INSECURE_HTTP
@click.option("--once", is_flag=True, help="stop after the story")
def demo(store: Path, listen: Listen, insecure_http: bool, once: bool) -> int:
    """Serve a store with a sample lake, and show how it was versioned.

    The first run also versions a real data set in it (28,000 airports) with the lakefs package, and
    prints each step.
    """
    with quiet_start():
        from graveler.cli import demo as story

    return story.demo(DemoOptions(store, listen, once, insecure_http))
