"""Serves S3 clients from a deployment on AWS: `graveler gateway`.

    port bound ─► secret read ─► table and buckets asked ─► server listens ─► ready
        ─► SIGINT or SIGTERM ─► no new requests, open ones end ─► stopped

The process keeps nothing that another one needs: any number of them may serve a deployment beside
its functions.  Its log and its audit trail are lines of JSON on standard error.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from graveler.api.pages import ask_bucket, ask_table
from graveler.api.start import open_service
from graveler.assembly.aws import Aws, StorageSigns, open_aws
from graveler.cli.support.host import (
    Running,
    certificate_of,
    listening,
    log_json,
    serve_until_stopped,
)
from graveler.cli.support.serve_options import GatewayOptions
from graveler.core.errors import GravelerError, Unavailable
from graveler.core.settings import Deployment
from graveler.gateway.route import gateway_app, s3_route
from graveler.http.service import Service, ServiceSettings
from graveler.jobs.sqs import SqsQueue


def serve(options: GatewayOptions) -> int:
    """Serve until interrupted.  Returns 0 after a graceful stop.

    Cost: 2 requests for the secret, 1 to the table, and 1 to each bucket, before the first request
    is served.
    """
    certificate = certificate_of(options.tls)
    log_json()
    with listening(options.listen, options.front) as at, _cached(options) as deployment:
        aws = _opened(deployment)
        _check(aws, deployment)
        service = _service(aws, deployment, options)
        route = s3_route(service, options.s3.domains, signature_v2=options.s3.signature_v2)

        def on_ready(running: Running) -> None:
            where = f"table {deployment.table}, process {os.getpid()}"
            if options.front.public_url:
                where = f"for clients {options.front.public_url}, {where}"
            print(f"graveler: S3 gateway ready at {running.listen.url} ({where})", flush=True)

        application = gateway_app(service, route, _namespace(deployment.buckets[0]))
        serve_until_stopped(application, at, options.front, on_ready, certificate)
    print("graveler: stopped", flush=True)
    return 0


@contextmanager
def _cached(options: GatewayOptions) -> Iterator[Deployment]:
    """The deployment with a folder for the cache, which nobody else may enter."""
    if not options.owns_cache:
        yield options.deployment
        return
    with tempfile.TemporaryDirectory(prefix="graveler-gateway-") as folder:
        yield options.deployment._replace(cache_folder=folder)


def _opened(deployment: Deployment) -> Aws:
    """Raises `Unavailable`, which names the remedy."""
    try:
        return open_aws(deployment)
    except GravelerError as error:
        raise Unavailable(
            "secret of the deployment not read: it has the name of the stack, and the credentials "
            "of AWS must allow secretsmanager:GetSecretValue on it: "
            f"secret={deployment.secret}: {error}"
        ) from error


def _check(aws: Aws, deployment: Deployment) -> None:
    """Ask the table and the buckets.

    Raises `Unavailable` if the table or the deployment's own bucket does not answer.  Another
    bucket that does not answer only stops its own repositories; stderr names it.
    """
    try:
        ask_table(aws.ports.kv)
    except GravelerError as error:
        raise Unavailable(
            "table not reached: it has the name of the stack, and the credentials of AWS must "
            f"allow dynamodb:GetItem on it: table={deployment.table}: {error}"
        ) from error
    for bucket in deployment.buckets:
        try:
            ask_bucket(aws.ports.blocks, _namespace(bucket))
        except GravelerError as error:
            text = (
                "bucket not reached: the credentials of AWS must allow s3:ListBucket and "
                f"s3:GetObject on it: bucket={bucket}: {error}"
            )
            if bucket == deployment.buckets[0]:
                raise Unavailable(text) from error
            print(f"graveler gateway: {text}", file=sys.stderr)


def _namespace(bucket: str) -> str:
    return f"s3://{bucket}"


def _service(aws: Aws, deployment: Deployment, options: GatewayOptions) -> Service:
    settings = ServiceSettings(
        blockstore_type="s3",
        writer_threads=48,  # every look-up asks the network
        is_remote=True,
        access_log=True,
        front=options.front,
        user_requests_per_second=deployment.user_requests_per_second,
    )
    queue = SqsQueue(aws.session, deployment.jobs_queue)  # no request of S3 clients makes a job
    return open_service(
        aws.ports,
        StorageSigns(),
        aws.secret.key,
        settings,
        aws.secret.first,
        before=aws.secret.before,
        wrapper=aws.wrapper,
        read_again=aws.read_again,
        queue=lambda *_: queue,
    )
