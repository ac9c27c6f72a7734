"""`graveler events`: a bucket's notifications, and the rules that say what becomes of them."""

import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from graveler.aws import AwsSession
from graveler.block import s3_notices
from graveler.cli.event_arguments import ConnectOptions, RulesOptions
from graveler.cli.remote import Server, server_of
from graveler.settings import environment


def connect(options: ConnectOptions) -> int:
    """Connect or disconnect; 0 also if it was so already."""
    change = s3_notices.disconnect if options.remove else s3_notices.connect
    done = change(AwsSession(), options.bucket, options.queue, options.prefix)
    state = "not connected" if options.remove else "connected"
    print(f"{options.bucket}: {state}{'' if done else ' already'}")
    return 0


def rules(options: RulesOptions) -> int:
    """Show, make or end rules."""
    server = server_of(environment(), options.server, options.access_key_id)
    path = f"/repositories/{quote(options.repository, safe='')}/events/rules"
    if options.action == "add":
        _show(server.ask("POST", path, options.said))
    elif options.action == "remove":
        server.ask("DELETE", f"{path}/{quote(options.rule, safe='')}")
    else:
        _show_all(server, path)
    return 0


def _show_all(server: Server, path: str) -> None:
    found = server.ask("GET", path)["results"]
    for rule in found:
        _show(rule)
    if not found:
        print("no rules", file=sys.stderr)


def _show(rule: Mapping[str, Any]) -> None:
    said = " ".join(
        f"{name}={rule[name]}"
        for name in ("suffix", "objects", "seconds", "marker")
        if rule.get(name)
    )
    source = f"s3://{rule['bucket']}/{rule['prefix']}"
    print(f"{rule['id']}  {source} -> {rule['branch']}: {rule['path']}  {said}")
