"""A user's script that uses every verb of the library, with types: `mypy --strict` checks it.

`run` works on an empty lake, `folder` is one that imports may read.
"""

import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import graveler
from graveler import Branch, Commit, Lake, Ref, Repository, Tag
from graveler.lake.job import ImportProgress
from graveler.lake.pull_requests import Comment, PullRequest
from graveler.lake.records import Change, ChangeSummary, Entry, MergeBase
from graveler.lake.transfer import Transferred

ROLE = "arn:aws:sts::123456789012:assumed-role/engineers"
STATEMENTS = [{"effect": "allow", "action": ["fs:ReadObject"], "resource": "*"}]


def run(lake: Lake, folder: Path) -> None:
    """Everything once."""
    shop = repositories(lake)
    main = shop.branch("main")
    objects(main, folder)
    tables(main)
    first = history(main)
    branches(shop, first)
    changes(main)
    pulls(shop)
    jobs(shop, folder)
    rules(shop)
    users(lake)
    shop.delete(force=True)
    lake.close()


def misspelt() -> None:
    """Never called: a checker has to find it."""
    graveler.conect()  # type: ignore[attr-defined]


def repositories(lake: Lake) -> Repository:
    shop: Repository = lake.create_repository("shop", exist_ok=True)
    names: list[str] = [each.name for each in lake.repositories("sh")]
    ref, path = lake.at("graveler://shop/main/a/b.csv")
    same: bool = lake["shop"] == lake.repository("shop") == ref.repository and shop.exists()
    assert names == ["shop"] and path == "a/b.csv" and same
    url: str = lake.url
    print(url, lake.version(), lake.whoami(), lake.presigns, shop.namespace)
    print(lake.config()["version_config"], lake.namespaces().prefix)
    shop.set_metadata({"team": "data"})
    print(shop.metadata["team"])
    shop.delete_metadata("team")
    assert shop.answer["id"] == "shop"
    return shop


def objects(main: Branch, folder: Path) -> None:
    entry: Entry = main.write_bytes("a/1", b"12", metadata={"k": "v"})
    main.write_text("a/2", "text")
    with main.open("a/3", "wb") as file:
        file.write(b"123")
    data: bytes = main.read_bytes("a/1", start=1)
    text: str = main.read_text("a/2")
    assert (data, text, entry.size, entry.name) == (b"2", "text", 2, "1")
    piped: Entry = main.write_stream("a/4", main.stream("a/3"), length=3)
    failed: dict[str, graveler.Error] = main.delete_objects([piped.path])
    print(failed, main.storage_class("a/1"))
    moved: Entry = main.move(main.copy("a/1", "b/1").path, "b/2")
    main.set_metadata(moved.path, {"k": "w"})
    assert main.exists("b/2") and main.stat("b/2", presign=True).metadata == {"k": "w"}
    assert [each.path for each in main.list(recursive=False) if each.is_folder] == ["a/", "b/"]
    listed: list[Entry] = main.list("a/", limit=2, after="a/0", recursive=True).all()
    folders: list[str] = main.folders().all()
    found = main.glob("*/2").first()
    assert len(listed) == 2 and folders == ["a/", "b/"] and found is not None
    done: Transferred = main.upload(folder, "files/")
    main.download("files/", folder / "copy")
    deleted: int = main.delete("files/")
    assert done.files == deleted == 3
    content = (folder / "deep/er/a.csv").read_bytes()
    checksum, url = hashlib.md5(content).hexdigest(), f"local://{folder}/deep/er/a.csv"
    staged: Entry = main.stage("s.csv", url, size=len(content), checksum=checksum)
    main.reset(staged.path)
    try:
        print(main.url("a/1"))
    except ValueError as error:
        print("no signed URLs:", error)


def tables(main: Branch) -> None:
    main.write_text("t/1.csv", "id\n1\n2\n")
    main.commit("a table")
    data = main.dataset("t/", format="csv")
    rows: int = data.count_rows()
    files: tuple[str, ...] = data.files
    print(data.schema, data.to_table().num_rows, len(data.to_pandas()), len(list(data)), files)
    assert rows == 2 and data.paths == ("t/1.csv",) and data.arrow is not None
    try:
        main.table("t", format="csv")
    except graveler.Error as error:  # a lake of graveler.spark.connect has tables
        assert "no session of Spark" in str(error)
    try:
        address: str = main.publish("t/", name="t").address
        main.repository.withdraw("t")
        print(address)
    except ValueError as error:
        print("no S3:", error)
    assert main.repository.snapshots().all() == []
    fs = graveler.fs(main.repository.lake)
    assert fs.cat(f"{main.address}/t/1.csv") == b"id\n1\n2\n"


def history(main: Branch) -> Commit:
    main.write_text("a/1", "2")
    status: list[Change] = main.status("a/").all()
    assert [each.type for each in status] == ["changed"]
    counted: list[ChangeSummary] = main.status_summary().all()
    assert [(each.path, each.changed) for each in counted] == [("a/", 1)]
    print(main.write_symlinks("a/"))
    main.reset("a/1")
    main.write_text("a/1", "3")
    made: Commit = main.commit("one", {"run": "1"}, date=datetime(2026, 1, 1, tzinfo=UTC))
    parents: tuple[Commit, ...] = made.parents
    when: datetime = made.created
    print(made.id, made.message, made.committer, when, made.metadata, parents, made.address)
    assert made.answer["id"] == made.id and not made.hooks_are_off
    changed: list[Change] = made.changes().all()
    assert changed[0].path == "a/1" and main.pin() == made.pin()
    for commit in main.log(2, path="a/1", since=when - timedelta(days=1)):
        print(commit.id)
    print(main.summary("a/").objects)
    back: Commit = main.revert(made)
    main.undo(back)
    main.restore("main~1", "as before")
    main.reset(to=made)
    return made


def branches(shop: Repository, first: Commit) -> None:
    main = shop.branch("main")
    dev: Branch = shop.create_branch("dev", first)
    tag: Tag = shop.create_tag("v1", dev)
    assert [each.name for each in shop.branches()] == ["dev", "main"]
    assert [each.name for each in shop.tags()] == ["v1"] and shop.tag("v1") == tag
    other: Tag = main.tag("v2")
    other.delete()
    refs: tuple[Ref, ...] = (shop.ref("main~1"), shop.commit(first.id[:12]), shop["v1"])
    print(refs, shop.default_branch, str(tag))
    shop.delete_tag("v1")
    for branch, value in ((main, "m"), (dev, "d")):
        branch.write_text("a/1", value)
        branch.commit(f"by {branch.name}")
    base: MergeBase = main.merge_base(dev)
    assert base.source == main.head == main.answer["commit_id"] and base.base == first.id
    assert not main.preview(dev).can_merge and main.conflicts(dev, limit=1) == ("a/1",)
    assert main.diff(dev).first() is not None
    assert [(each.path, each.conflicts) for each in main.diff_summary(dev)] == [("a/", 1)]
    try:
        main.merge(dev)
    except graveler.errors.MergeConflict as conflict:
        print(conflict.paths, conflict.kind, conflict.remedy, conflict.reason, conflict.request_id)
    main.merge(dev, resolve={"a/": "source"})
    feature: Branch = main.create_branch("feature")
    feature.write_text("f", "1")
    main.cherry_pick(feature.commit("feature"))
    job: str = feature.begin_commit("in the background", allow_empty=True)
    while shop.job(job).state in ("queued", "running", "landing"):
        pass
    shop.delete_branch(feature)


def changes(main: Branch) -> None:
    def is_short(branch: Branch) -> bool:
        return all(each.size < 100 for each in branch.list())

    with (change := main.change("a change", [is_short], metadata={"run": "2"})) as work:
        work.write_text("c", "1")
    landed: Commit | None = change.commit
    assert landed is not None and change.pull_request is None
    with main.change("a job", job="load-1") as work:
        work.write_text("j", "1")
    is_known: bool = main.change("a job", job="load-1").has_landed()
    assert is_known


def pulls(shop: Repository) -> None:
    main, source = shop.branch("main"), shop.create_branch("source")
    source.write_text("p", "1")
    source.commit("p")
    pull: PullRequest = source.pull_request(main, "title", "why")
    requests = shop.pull_requests
    comment: Comment = requests.comment(pull, "why so")
    requests.edit(pull, comment, "why so, please")
    requests.resolve(pull, comment)
    print(requests.comments(pull).all(), requests.get(pull.id), list(requests))
    requests.close(pull)
    requests.reopen(pull)
    landed: Commit = requests.merge(pull)
    assert landed.message and [each.id for each in requests.list("merged")] == [pull.id]
    source.write_text("p", "2")
    source.commit("p again")
    again: PullRequest = requests.create(source, main, "again")
    assert again.status == "open"


def jobs(shop: Repository, folder: Path) -> None:
    def seen(progress: ImportProgress) -> None:
        print(progress.objects)

    order = shop.branch("main").import_objects(f"local://{folder}/", "in/", "import")
    commit: Commit = order.wait(60, seen)
    assert commit.message == "import" and order.progress().done
    try:
        order.cancel()
    except graveler.errors.Error as error:
        print("it has ended:", error)
    for each in shop.jobs(kind="import"):
        print(shop.job(each.id).state)
        try:
            shop.cancel_job(each.id)
        except graveler.errors.Conflict as ended:
            print(ended)
    collection = shop.collect(dry_run=True)
    print(collection.wait(60), collection.progress())
    try:
        collection.undo()
    except graveler.Error as nothing:
        print(nothing)
    try:
        shop.undo_collection("none")
    except graveler.errors.NotFound as unknown:
        print(unknown)
    for run in shop.runs("main"):
        print(shop.run_log(run), shop.run(run.id))
        print([shop.hook_log(hook) for hook in shop.hooks_of(run)])
    print(shop.hooks_are_off())
    manifest = shop.dump()
    task = shop.begin_dump()
    assert task.wait(60).manifest is not None and task.progress().done
    copy = shop.lake.create_repository("copy", bare=True)
    try:
        copy.restore(manifest)
    except graveler.Error as elsewhere:  # its files are in the other namespace
        print(elsewhere)
    try:
        copy.begin_restore(manifest, force=True).wait(60)
    except graveler.Error as elsewhere:
        print(elsewhere)


def rules(shop: Repository) -> None:
    main = shop.branch("main")
    main.protect()
    shop.protect("release-*")
    patterns: tuple[str, ...] = shop.protected()
    main.unprotect()
    shop.unprotect("release-*")
    assert set(patterns) == {"main", "release-*"}
    shop.set_retention(30, {"main": 90})
    print(shop.retention()["default_retention_days"])
    shop.delete_retention()
    rule = shop.events.create(main, "landing", prefix="in/")
    assert [each.id for each in shop.events.list()] == [rule.id] == [shop.events.get(rule.id).id]
    shop.events.delete(rule)


def users(lake: Lake) -> None:
    admin = lake.admin
    user = admin.create_user("ada", name="Ada")
    admin.disable_user(user.id)
    admin.enable_user(user.id)
    key = admin.create_key("ada", "laptop")
    assert key.secret and [each.id for each in admin.keys("ada")] == [key.id]
    admin.delete_key("ada", key.id)
    admin.add_principal("ada", ROLE)
    assert admin.user_of_principal(ROLE) == "ada" and admin.principals("ada").all() == [ROLE]
    admin.remove_principal("ada", ROLE)
    admin.create_group("team", "all")
    admin.add_member("team", "ada")
    policy = admin.create_policy("read", STATEMENTS)
    admin.replace_policy("read", STATEMENTS)
    admin.attach("read", user="ada", group="team")
    effective: list[str] = [each.id for each in admin.policies_of("ada", effective=True)]
    assert admin.members("team").all() == ["ada"] and policy.id in effective
    assert admin.groups_of("ada").all() == [admin.group("team").id]
    print(admin.me(), admin.user("ada"), admin.policy("read"), admin.users("a"), admin.groups("t"))
    admin.detach("read", user="ada", group="team")
    admin.remove_member("team", "ada")
    admin.delete_group("team")
    admin.delete_user("ada")
    admin.delete_policy("read")
    assert admin.policies("read").first() is None and admin.may_i("fs:ReadObject", "*")
    for line in admin.audit(since=datetime.now(UTC) - timedelta(hours=1), user=lake.whoami()):
        print(line["operation"])
    print(admin.usage())
