"""`graveler gateway`: its arguments, and the deployment that they and the environment name.

main.py imports this module for its arguments, so slow modules are imported where they are used.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from graveler.api.front import DIRECT, Front
from graveler.cli.options import (
    Commands,
    Listen,
    S3Options,
    add_insecure_http,
    add_listen,
    add_proxy,
    add_rate,
    add_s3,
)
from graveler.errors import Invalid
from graveler.settings import Deployment, deployment, environment

_MIB: Final = 1 << 20
_CACHE_FOLDER: Final = "GRAVELER_CACHE_FOLDER"


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """`graveler gateway`.  `owns_cache`: the command makes a folder for its cache, and removes it
    at its end."""

    deployment: Deployment
    listen: Listen
    front: Front = DIRECT
    s3: S3Options = field(default_factory=S3Options)
    owns_cache: bool = True
    insecure_http: bool = False  # other machines may use plain HTTP


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "gateway",
        help="serve S3 clients of a deployment on AWS until interrupted",
        description="Serve S3 clients from the table and the buckets of a deployment on AWS until "
        "SIGINT or SIGTERM.  The HTTP API is not served.  Credentials and region come from the AWS "
        "configuration; they need the rights of docs/how-to/gateway-on-aws.md.  What no option "
        "names is read from the variables that template.yaml sets for the functions.",
    )
    parser.add_argument(
        "--stack",
        default="",
        metavar="NAME",
        help="a deployment on AWS, whose table and secret have its name (default: GRAVELER_TABLE "
        "and GRAVELER_SECRET)",
    )
    parser.add_argument(
        "--bucket",
        action="append",
        default=[],
        metavar="NAME",
        help="a bucket that holds repositories (repeatable; the first is the deployment's own, its "
        "output Bucket; default: GRAVELER_BUCKETS)",
    )
    add_listen(parser)
    add_insecure_http(parser)
    add_proxy(parser)
    add_s3(parser)
    add_rate(parser, "GRAVELER_USER_REQUESTS_PER_SECOND, or no limit")
    parser.add_argument(
        "--memory-mib",
        type=int,
        default=1024,
        metavar="N",
        help="the memory of the process, of which caches take three eighths (default: 1024)",
    )
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from graveler.cli.s3_service import serve

    return serve(options_of(arguments, environment()))


def options_of(arguments: argparse.Namespace, variables: Mapping[str, str]) -> GatewayOptions:
    """The options in arguments and environment variables.  Raises `Invalid`, which names what is
    missing."""
    if arguments.memory_mib < 1:
        raise Invalid(f"--memory-mib must be 1 or more: {arguments.memory_mib}")
    buckets: Sequence[str] = arguments.bucket
    settings = dict(variables)
    if arguments.stack:
        settings |= {"GRAVELER_TABLE": arguments.stack, "GRAVELER_SECRET": arguments.stack}
    if buckets:
        settings["GRAVELER_BUCKETS"] = ",".join(buckets)
    try:
        chosen = deployment(settings)
    except Invalid as error:
        raise Invalid(f"{error}; name the deployment by --stack and --bucket") from error
    rate = arguments.user_requests_per_second or chosen.user_requests_per_second
    memory = arguments.memory_mib * _MIB
    return GatewayOptions(
        replace(chosen, memory_bytes=memory, user_requests_per_second=rate),
        arguments.listen,
        Front(
            arguments.public_url or "",
            tuple(arguments.trusted_proxy),
            tls_only=not arguments.insecure_http,
        ),
        S3Options(tuple(arguments.s3_domain), arguments.s3_v2_writes),
        owns_cache=not settings.get(_CACHE_FOLDER),
        insecure_http=arguments.insecure_http,
    )
