"""`graveler serve`, `demo` and `gateway`: their arguments.

Slow modules are imported where they are used: what is refused is refused at once.
"""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

from graveler.cli.support.command import operator
from graveler.cli.support.options import STORE_VARIABLE
from graveler.cli.support.serve_options import (
    FOLDER,
    INSECURE_HTTP,
    LISTEN,
    GatewayOptions,
    Listen,
    ServeOptions,
    front_of,
    listen_of,
    rate,
    reached,
    s3_of,
    tls_of,
)
from graveler.core import limits
from graveler.core.errors import Invalid
from graveler.core.settings import (
    administrator_keys,
    deployment,
    environment,
    hook_settings,
    identity_settings,
)
from graveler.http import front

_MIB: Final = 1 << 20
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


@contextmanager
def quiet_start() -> Iterator[None]:
    """Keep Python from looking for garbage in the block, which imports modules of a service, and
    afterwards among the objects that exist by its end: that takes a tenth of the start."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


@operator(
    "serve",
    examples=(
        "graveler serve --store lake                    # http://127.0.0.1:8000",
        "graveler serve --store lake --listen 127.0.0.1:9000 --import-root /data",
        "graveler serve --store lake --listen 0.0.0.0:8443 --tls-certificate c.pem --tls-key k.pem",
        "graveler serve --store lake --public-url https://lake.example --trusted-proxy 10.0.0.0/8",
        "graveler serve --store lake --collect-hours 24",
    ),
)
@_STORE
@reached
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
    "audit_mib",
    type=click.IntRange(16, 100 << 10),  # some files of the trail; 100 GiB
    default=limits.audit_bytes_max >> 20,
    metavar="N",
    help="keep at most N MiB of the audit trail; the oldest files go first (default: "
    f"{limits.audit_bytes_max >> 20})",
)
@_ALLOWED_HOST
@_HOOKS_ALLOW
@_HOOKS_ALLOW_LOOPBACK
def serve(store: Path, **more: Any) -> int:
    """Serve the store in a folder over HTTP until SIGINT or SIGTERM.

    A folder that does not exist or is empty becomes a new store.  One with other files is refused.
    If GRAVELER_ACCESS_KEY_ID and GRAVELER_SECRET_ACCESS_KEY are set, they are the administrator's
    credentials.  Otherwise `graveler login URL --setup` creates them.

    S3 clients reach the store at the same URL, with the same keys: REPOSITORY is the bucket and
    BRANCH/PATH the key, with addresses in path style unless --s3-domain is given.
    """
    listen, before, s3_options = listen_of(more), front_of(more, more["allowed_hosts"]), s3_of(more)
    host = front.host_of(before.public_url.partition("://")[2])
    hooks = hook_settings(environment(), more["hooks_allow"], loopback=more["hooks_allow_loopback"])
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
        audit_bytes_max=more["audit_mib"] * _MIB,
        s3=s3_options,
        user_requests_per_second=more["user_requests_per_second"] or 0,
        synced=more["sync"] == "on",
        tls=tls_of(more),
    )
    keys = administrator_keys(environment())
    with quiet_start():  # what is refused so far is refused at once
        from graveler.cli.support import service

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

    The first run also versions a real data set in it (28,000 airports) with the Python library, and
    prints each step.
    """
    with quiet_start():
        from graveler.cli.support import demo as story

    return story.demo(store, listen, front.Front(tls_only=not insecure_http), once=once)


_CACHE_FOLDER: Final = "GRAVELER_CACHE_FOLDER"


@operator(
    "gateway",
    examples=(
        "graveler gateway --stack graveler --bucket graveler-data",
        "graveler gateway --stack graveler --bucket graveler-data --s3-domain s3.lake.example",
    ),
)
@click.option(
    "--stack",
    default="",
    metavar="NAME",
    help="a deployment on AWS, whose table and secret have its name (default: GRAVELER_TABLE and "
    "GRAVELER_SECRET)",
)
@click.option(
    "--bucket",
    "buckets",
    multiple=True,
    metavar="NAME",
    help="a bucket that holds repositories (repeatable; the first is the deployment's own, its "
    "output Bucket; default: GRAVELER_BUCKETS)",
)
@reached
@rate("GRAVELER_USER_REQUESTS_PER_SECOND, or no limit")
@click.option(
    "--memory-mib",
    type=click.IntRange(min=1),
    default=1024,
    metavar="N",
    help="the memory of the process, of which caches take three eighths (default: 1024)",
)
def gateway(**parameters: Any) -> int:
    """Serve S3 clients of a deployment on AWS until SIGINT or SIGTERM.

    Table and buckets are those of the deployment.  The HTTP API is not served.  Credentials and
    region come from the AWS configuration; they need the rights of docs/how-to/gateway-on-aws.md.
    What no option names is read from the variables that template.yaml sets for the functions.
    """
    with quiet_start():
        from graveler.cli.support.s3_service import serve

    return serve(options_of(parameters, environment()))


def options_of(parameters: Mapping[str, Any], variables: Mapping[str, str]) -> GatewayOptions:
    """The options in the parameters of the command and in environment variables.  Raises `Invalid`,
    which names what is missing."""
    settings = dict(variables)
    if parameters["stack"]:
        settings |= {"GRAVELER_TABLE": parameters["stack"], "GRAVELER_SECRET": parameters["stack"]}
    if parameters["buckets"]:
        settings["GRAVELER_BUCKETS"] = ",".join(parameters["buckets"])
    try:
        chosen = deployment(settings)
    except Invalid as error:
        raise Invalid(f"{error}; name the deployment by --stack and --bucket") from error
    rate_max = parameters["user_requests_per_second"] or chosen.user_requests_per_second
    return GatewayOptions(
        chosen._replace(
            memory_bytes=parameters["memory_mib"] * _MIB,
            user_requests_per_second=rate_max,
        ),
        listen_of(parameters),
        front_of(parameters),
        s3_of(parameters),
        owns_cache=not settings.get(_CACHE_FOLDER),
        tls=tls_of(parameters),
    )
