"""The lines of `make bench` on access control: what they count is exact, whatever the size."""

from pathlib import Path

import pytest

from benchmarks import access
from benchmarks.__main__ import GROUPS, written
from benchmarks.access import Lake, Scale
from graveler.auth import links
from graveler.auth.access import effective
from graveler.auth.entities import USERS, User, listed
from graveler.auth.links import MEMBER, OF_GROUP
from graveler.errors import NotFound
from graveler.kv.memory import MemoryStore
from graveler.testing.clockwork import TickingClock

SMALL = Scale(users=300, policies=20, decisions=5, verbs=3)
LARGE = Scale(users=2_500, policies=40, decisions=5, verbs=3)  # more rows than a request scans
MACHINE = {"processor": "P", "cores": "2", "system": "S", "python": "3", "load": "0.5"}
FOUND = {
    "machine": MACHINE,
    "calibration": {"sha256_64_bytes_us": 0.5, "synced_4_kib_ms": 0.5},
    "lines": [
        {"name": "stat", "value": 5_000.0, "unit": "requests/s", "scaled": 2_000.0,
         "verdict": "ahead", "ratio": 2.5, "floor": 1_000.0, "client": 0.3},
    ],
    "access": [
        {"name": "decision", "value": 5.0, "unit": "µs", "goal": 30.0, "requests": 0,
         "requests_goal": 0, "held": True},
        {"name": "setting up", "value": 2.0, "unit": "s"},
    ],
    "gateway": [
        {"name": "GET", "value": 0.75, "unit": "", "goal": "≥ 0.7", "held": True},
        {"name": "cp", "value": 1_500.0, "unit": "MB/s"},
    ],
}  # fmt: skip
DOCUMENT = (
    "# Benchmarks\n\nold lines\n\n## Access control\n\nold\n\n## The S3 gateway\n\nolder\n\n"
    "## On Spark\n\nkept\n"
)


def test_no_line_costs_more_requests_in_a_larger_directory(tmp_path: Path) -> None:
    counted = []
    for number, scale in enumerate((SMALL, LARGE)):
        lines = access.directory_lines(tmp_path / str(number), scale)
        counted.append([line["requests"] for line in lines if "requests" in line])
        assert all(line["requests"] <= line["requests_goal"] for line in lines[:-1])
    assert counted[0] == counted[1] == [0, 0, 0, 0, 3, 1, 1, 1, 3, 3]


def test_the_directory_is_as_the_verbs_would_have_made_it() -> None:
    lake = Lake(MemoryStore(), TickingClock(), SMALL)

    def users() -> list[User]:
        return list(listed(lake.kv, USERS, "user", "", SMALL.users))

    assert len(users()) == SMALL.users
    first = users()[0]
    (group,) = links.targets(lake.kv, MEMBER, first)
    members = [user.id for user in links.members(lake.kv, group.id, "", "", SMALL.users)]
    assert members == [user.id for user in users() if user.groups == first.groups]
    assert lake.authorize().user in members
    assert [policy.id for policy in effective(lake.kv, first)] == [
        f"policy{number:04}" for number in range(access.GROUP_POLICIES)
    ]
    links.remove(lake.keeper, OF_GROUP, group.id, "policy0009")
    lake.auth.access.forget()
    with pytest.raises(NotFound):
        lake.authorize()
    links.delete_policy(lake.keeper, "policy0008")
    links.delete_group(lake.keeper, group.id)
    assert not any(user.groups for user in users() if user.id in members)


def test_one_group_of_lines_replaces_its_section_alone() -> None:
    row = "| decision | 5 | µs | ≤ 30 | 0 | ≤ 0 |"
    alone = written(DOCUMENT, FOUND, ["access"])
    assert alone.startswith("# Benchmarks\n\nold lines\n\n## Access control\n\n`make bench`")
    assert row in alone and "| setting up | 2 | s |  |  |  |" in alone
    assert alone.endswith("\n\n## The S3 gateway\n\nolder\n\n## On Spark\n\nkept\n")
    s3 = written(DOCUMENT, FOUND, ["gateway"])
    assert s3.startswith("# Benchmarks\n\nold lines\n\n## Access control\n\nold\n\n## The S3 g")
    assert "| GET | 0.75 |  | ≥ 0.7 |" in s3 and "| cp | 1,500 | MB/s |  |" in s3
    assert "older" not in s3 and s3.endswith("\n\n## On Spark\n\nkept\n")
    assert written(DOCUMENT, FOUND, ["http"]) == DOCUMENT
    others: dict[str, list[object]] = {"cli": [], "transfers": [], "local": [], "floors": []}
    whole = written(DOCUMENT, {**FOUND, **others}, GROUPS)
    assert (
        "\nold" not in whole
        and "| stat | 5,000.0 | requests/s | 2,000.0 | 2.5 × ahead | 1,000.0 |  | 0.3 |" in whole
        and row in whole
    )
    assert "\n\n## On Spark\n\nkept\n" in whole
