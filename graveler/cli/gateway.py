"""`graveler gateway`: its arguments, and the deployment that they and the environment name.

`--help` imports this module, so slow modules are imported where they are used.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import click

from graveler.cli.command import operator
from graveler.cli.options import INSECURE_HTTP, LISTEN, GatewayOptions, S3Options, proxy, rate, s3
from graveler.cli.quiet_start import quiet_start
from graveler.errors import Invalid
from graveler.http.front import Front
from graveler.settings import deployment, environment

_MIB: Final = 1 << 20
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
@LISTEN
@INSECURE_HTTP
@proxy
@s3
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
        from graveler.cli.s3_service import serve

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
        replace(
            chosen,
            memory_bytes=parameters["memory_mib"] * _MIB,
            user_requests_per_second=rate_max,
        ),
        parameters["listen"],
        Front(
            parameters["public_url"] or "",
            parameters["trusted_proxies"],
            tls_only=not parameters["insecure_http"],
            cors_origins=parameters["cors_origins"],
        ),
        S3Options(parameters["s3_domains"], parameters["s3_signature_v2"]),
        owns_cache=not settings.get(_CACHE_FOLDER),
    )
