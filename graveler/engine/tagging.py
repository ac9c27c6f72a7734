"""Tags: names of commits that never move."""

from graveler.engine.branching import PageQuery
from graveler.engine.heads import check_kept, resolved
from graveler.engine.ports import Ports, check_writable
from graveler.errors import AlreadyExists
from graveler.ids import CommitId, TagId, parse_tag_id
from graveler.records import ABSENT, Repository
from graveler.refs import tags
from graveler.refs.resolve import holders


def create_tag(
    ports: Ports, repo: Repository, name: str, ref: str, *, force: bool = False
) -> CommitId:
    """Name the commit that `ref` means.

    Errors: `AlreadyExists` (a tag, branch or commit has the name), `NotFound`, `Invalid`,
    `Refused`.
    """
    tag = parse_tag_id(name)
    check_writable(repo, force)
    there = holders(ports.kv, repo, tag)
    live_branch = there.branch is not ABSENT and there.branch.branch.live
    if there.tag is not ABSENT:
        raise AlreadyExists("tag already exists: not unique")
    if live_branch or there.commit:
        raise AlreadyExists(f"{'branch' if live_branch else 'commit'} name {tag}: conflict found")
    commit_id = resolved(ports, repo, ref).commit
    check_kept(ports, repo, commit_id)
    tags.create(ports.kv, repo, tag, commit_id, ports.ids.stamp())
    return commit_id


def get_tag(ports: Ports, repo: Repository, name: str) -> CommitId:
    """The commit that it names; `NotFound`."""
    return tags.get(ports.kv, repo, parse_tag_id(name)).commit


def delete_tag(ports: Ports, repo: Repository, name: str, *, force: bool = False) -> None:
    """Remove the name; `NotFound`."""
    tag = parse_tag_id(name)
    check_writable(repo, force)
    tags.delete(ports.kv, repo, tag)


def list_tags(
    ports: Ports, repo: Repository, page: PageQuery
) -> tuple[tuple[tuple[TagId, CommitId], ...], bool]:
    """Tags by name; whether more follow."""
    found, more = tags.list_page(ports.kv, repo, page.prefix, page.after, page.amount)
    return tuple((named.id, named.tag.commit) for named in found), more
