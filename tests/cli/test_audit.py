"""`graveler audit`: the changes of a served store, newest first."""

from graveler.api.config import AuditLine
from tests.cli.conftest import Lake


def test_the_newest_line_is_first(lake: Lake) -> None:
    user, name = lake.user, lake.name
    for branch in ("a", "b"):
        assert user.run("branch", "create", f"{name}/{branch}").code == 0
    assert user.run("branch", "delete", f"{name}/a", "--yes").code == 0
    below = ("audit", "--resource", f"arn:lakefs:fs:::repository/{name}")
    lines = user.read(list[AuditLine], *below)
    assert [line.operation for line in lines[:3]] == ["deleteBranch", *["createBranch"] * 2]
    assert sorted((line.time for line in lines), reverse=True) == [line.time for line in lines]
    (one,) = user.read(list[AuditLine], *below, "-n", "1")
    assert one == lines[0]
    created = user.read(list[AuditLine], *below, "--action", "createBranch", "--outcome", "done")
    assert {line.operation for line in created} == {"createBranch"} and len(created) == 2
    row = user.run(*below, "-n", "1").out.rstrip("\n").split("\t")
    assert row[1:4] == ["administrator", "deleteBranch", "done"] and name in row[5]


def test_spans_and_users(lake: Lake) -> None:
    user = lake.user
    assert user.run("audit", "--until", "2000-01-01").err.startswith("no lines: ")
    assert user.run("audit", "--user", "nobody-at-all").out == ""
    assert user.run("audit", "--since", "1 hour ago").code == 0
    assert user.run("audit", "--since", "whenever").code == 2
