"""The function of the janitor: one round over as many repositories as its time allows.

First it sends jobs whose worker has died to another worker, and orders the daily garbage
collections and the purges of deleted repositories.
"""

from quiet_start import start

# isort: split
from typing import Any

from aws_lambda_powertools import Metrics
from aws_lambda_powertools.metrics import MetricUnit
from bootstrap import at_rest, deployment, open_log, open_store

from graveler.engine.janitor import tend_all
from graveler.jobs import purge
from graveler.jobs.rounds import order_daily, revive_everywhere
from graveler.jobs.sqs import SqsQueue

SECONDS_KEPT_BACK = 30.0

log, metrics = open_log(), Metrics()
aws = open_store()
queue = SqsQueue(aws.session, deployment().jobs_queue)


@start.end
@at_rest(aws)
@log.inject_lambda_context
@metrics.log_metrics
def handle(_event: dict[str, Any], context: Any) -> None:
    """Do one round.  Repositories that it does not reach come first in the next round."""
    revived = revive_everywhere(aws.ports, queue, left(context) / 4)
    metrics.add_metric("JobsRevived", MetricUnit.Count, revived)
    ordered = order_daily(aws.ports, queue, left(context) / 4)
    purges = purge.order(aws.ports, queue)
    tended = tend_all(aws.ports, left(context))
    metrics.add_metric("RowsDeleted", MetricUnit.Count, tended.rows)
    metrics.add_metric("SealedTokens", MetricUnit.Count, tended.tokens_waiting)
    metrics.add_metric("RoundsEnded", MetricUnit.Count, int(tended.whole))
    log.info("round ended", collections_ordered=ordered, purges_ordered=purges, **tended._asdict())


def left(context: Any) -> float:
    """The seconds left in which new work may begin."""
    seconds: float = context.get_remaining_time_in_millis() / 1000 - SECONDS_KEPT_BACK
    return seconds
