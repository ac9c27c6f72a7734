"""Notifications of buckets become staged changes and commits, by the rules of the repositories."""

from typing import Any

from starting import open_log

log = open_log()


@log.inject_lambda_context
def handle(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """No rule can be made yet: every notification is left to the queue, and at last to the dead
    letters."""
    failed = [{"itemIdentifier": record["messageId"]} for record in event["Records"]]
    return {"batchItemFailures": failed}
