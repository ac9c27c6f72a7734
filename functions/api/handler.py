"""The function behind the HTTP API: answers requests from API Gateway."""

from quiet_start import start

# isort: split
from typing import Any

from aws_lambda_powertools import Metrics
from aws_lambda_powertools.logging.correlation_paths import API_GATEWAY_HTTP
from aws_lambda_powertools.metrics import MetricUnit
from bootstrap import Afresh, at_rest, deployment, open_log, open_store
from gateway import Gateway, is_commit
from mangum import Mangum

from graveler.api.app import Graveler
from graveler.api.start import open_service
from graveler.assembly.aws import StorageSigns, secret_text, storage_origins
from graveler.audit.logs import LogGroupTrail
from graveler.audit.trail import LoggedTrail, Trail
from graveler.auth.authenticator import NO_IDENTITIES, Identities
from graveler.core.settings import (
    environment,
    identity_settings,
    oidc_secret_name,
    with_oidc_secret,
)
from graveler.http.dispatch import S3Refusal
from graveler.http.front import Front
from graveler.http.service import ON_AWS, ServiceSettings
from graveler.jobs.handover import TimeLimits
from graveler.jobs.sqs import SqsQueue

INLINE_BYTES_MAX = 4 << 20  # Lambda takes 6 MB, and Base64 makes binary bodies a third larger
SETTINGS = ServiceSettings(
    blockstore_type="s3",
    access_log=True,
    front=Front(hosts=("*",)),  # the gateway forwards only requests for its own host names
    presigns=True,
    presigns_parts=True,
    inline_bytes_max=INLINE_BYTES_MAX,
    page_dollars=ON_AWS,
    time_limits=TimeLimits(hand_over_seconds=20.0, answer_seconds=27.0),  # the gateway waits 30 s
)


def _identities() -> Identities:
    """What proves an identity beside a key, as the template says."""
    variables = environment()
    if name := oidc_secret_name(variables):  # many may read the environment of a function
        variables = with_oidc_secret(variables, secret_text(aws.session, name))
    chosen = identity_settings(variables)
    if not chosen.given:
        return NO_IDENTITIES
    from graveler.api.identities import open_identities

    return open_identities(chosen, aws.ports.clock)


def _adapter() -> Mangum:
    secret = aws.secret
    queue = SqsQueue(aws.session, deployment().jobs_queue)
    service = open_service(
        aws.ports,
        StorageSigns(),
        secret.key,
        SETTINGS._replace(
            user_requests_per_second=deployment().user_requests_per_second,
            storage_origins=storage_origins(deployment(), aws.session.region()),
            front=SETTINGS.front._replace(own_hosts=deployment().own_hosts),
        ),
        secret.first,
        before=secret.before,
        wrapper=aws.wrapper,
        read_again=aws.read_again,
        identities=_identities(),
        queue=lambda *_: queue,
        trail=_trail(),
    )
    application = Graveler().use(service, S3Refusal(service, deployment().s3_endpoint))
    return Mangum(application, lifespan="off", custom_handlers=[Gateway])


def _trail() -> Trail:
    group = deployment().audit_log
    return LogGroupTrail(aws.session, group, aws.ports.clock) if group else LoggedTrail()


log, metrics = open_log(), Metrics()
aws = open_store()
adapter = Afresh(_adapter)


@start.end
@at_rest(aws)
@log.inject_lambda_context(correlation_id_path=API_GATEWAY_HTTP)
def handle(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer one request.  For a commit, record a metric of its duration, and of its failure if
    the service is to blame."""
    started = aws.ports.clock.steady_seconds()
    answer = adapter.value(event, context)
    if is_commit(event):
        milliseconds = (aws.ports.clock.steady_seconds() - started) * 1000
        metrics.add_metric("CommitMilliseconds", MetricUnit.Milliseconds, milliseconds)
        if answer["statusCode"] >= 500:
            metrics.add_metric("CommitsFailed", MetricUnit.Count, 1)
        metrics.flush_metrics()
    return answer
