"""A round of the janitor over all repositories, as many as its time allows.

Before it, jobs whose worker is dead are handed on, and the day's collections and the purges of
deleted repositories are ordered.
"""

from typing import Any

from aws_lambda_powertools import Metrics
from aws_lambda_powertools.metrics import MetricUnit
from bootstrap import deployment, open_log, open_store

from graveler.engine.upkeep.rounds import tend_all
from graveler.jobs import purge
from graveler.jobs.revive import revive_everywhere
from graveler.jobs.rota import order_daily
from graveler.jobs.sqs import SqsQueue

SECONDS_KEPT_BACK = 30.0

log, metrics = open_log(), Metrics()
aws = open_store()
queue = SqsQueue(aws.session, deployment().jobs_queue)


@log.inject_lambda_context
@metrics.log_metrics
def handle(_event: dict[str, Any], context: Any) -> None:
    """One round; what it left over comes first in the next one."""
    revived = revive_everywhere(aws.ports, queue, left(context) / 4)
    metrics.add_metric("JobsRevived", MetricUnit.Count, revived)
    ordered = order_daily(aws.ports, queue, left(context) / 4)
    purge.note_older(aws.ports)
    purges = purge.order(aws.ports, queue)
    tended = tend_all(aws.ports, left(context))
    metrics.add_metric("RowsDeleted", MetricUnit.Count, tended.rows)
    metrics.add_metric("SealedTokens", MetricUnit.Count, tended.tokens_waiting)
    metrics.add_metric("RoundsEnded", MetricUnit.Count, int(tended.whole))
    log.info("round ended", collections_ordered=ordered, purges_ordered=purges, **tended._asdict())


def left(context: Any) -> float:
    """Seconds in which something may be begun."""
    seconds: float = context.get_remaining_time_in_millis() / 1000 - SECONDS_KEPT_BACK
    return seconds
