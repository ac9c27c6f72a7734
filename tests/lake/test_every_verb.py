"""The script of a user that has every verb; `scripts/checks.sh` checks its types."""

import ast
import inspect
from pathlib import Path

import graveler
from graveler.lake import (
    admin,
    branch,
    dataset,
    event_rules,
    job,
    pull_requests,
    ref,
    repository,
    show,
)
from graveler.lake import lake as lakes
from tests.lake import every_verb

KINDS = (
    *(lakes.Lake, repository.Repository, pull_requests.PullRequests, event_rules.EventRules),
    *(
        job.RefsTask,
        ref.NamedRef,
        ref.Ref,
        branch.Branch,
        ref.Tag,
        ref.Commit,
        dataset.Dataset,
        job.Import,
        job.Collection,
    ),
    *(show.Listing, admin.Admin),
)


def test_it_runs(tmp_path: Path, folder: Path) -> None:
    with graveler.open(tmp_path / "store", import_roots=[folder]) as lake:
        every_verb.run(lake, folder)


def test_it_has_every_verb() -> None:
    tree = ast.parse(inspect.getsource(every_verb))
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for kind in KINDS:
        verbs = {name for name in vars(kind) if not name.startswith("_")}
        assert verbs <= used, (kind, verbs - used)
