"""`graveler events`: connects a bucket's notifications, and manages the event rules."""

import sys

from graveler.aws import AwsSession
from graveler.block import s3_notices
from graveler.cli.event_arguments import ConnectOptions, RulesOptions
from graveler.client import connect_as_lakectl, event_rules
from graveler.client.event_rules import EventRule, NewRule
from graveler.settings import environment


def connect(options: ConnectOptions) -> int:
    """Connect or disconnect a bucket.  Returns 0, also if nothing had to change."""
    change = s3_notices.disconnect if options.remove else s3_notices.connect
    done = change(AwsSession(), options.bucket, options.queue, options.prefix)
    state = "not connected" if options.remove else "connected"
    print(f"{options.bucket}: {state}{'' if done else ' already'}")
    return 0


def rules(options: RulesOptions) -> int:
    """List, add or remove rules.  Returns 0."""
    session = connect_as_lakectl(environment(), options.server, options.access_key_id)
    if options.action == "add":
        _show(event_rules.create(session, options.repository, NewRule(**options.said)))
    elif options.action == "remove":
        event_rules.delete(session, options.repository, options.rule)
    else:
        listed = event_rules.list_all(session, options.repository)
        for rule in listed:
            _show(rule)
        if not listed:
            print("no rules", file=sys.stderr)
    return 0


def _show(rule: EventRule) -> None:
    fields = " ".join(
        f"{name}={getattr(rule, name)}"
        for name in ("suffix", "objects", "seconds", "marker")
        if getattr(rule, name)
    )
    source = f"s3://{rule.bucket}/{rule.prefix}"
    print(f"{rule.id}  {source} -> {rule.branch}: {rule.path}  {fields}")
