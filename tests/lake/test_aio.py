"""The library for asyncio: the same verbs, awaited."""

import asyncio
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest

import graveler
from graveler import Lake, aio
from graveler.lake import admin, branch, dataset, event_rules, job, pull_requests, ref, repository
from graveler.lake import lake as lakes
from graveler.lake.errors import Invalid, NotFound
from graveler.lake.transfer import Transferred
from tests.cli.service import KEY, SECRET


def test_every_verb_is_there() -> None:
    pairs = (
        *((lakes.Lake, aio.Lake), (repository.Repository, aio.Repository), (ref.Ref, aio.Ref)),
        *((branch.Branch, aio.Branch), (ref.Tag, aio.Tag), (dataset.Dataset, aio.Dataset)),
        *((job.Import, aio.Import), (job.Collection, aio.Collection), (admin.Admin, aio.Admin)),
        (pull_requests.PullRequests, aio.PullRequests),
        *((event_rules.EventRules, aio.EventRules), (job.RefsTask, aio.RefsTask)),
    )
    for ours, theirs in pairs:
        names = {name for name in dir(ours) if not name.startswith("_")}
        assert names - set(dir(theirs)) == set(), theirs
    assert "Merge a ref" in (aio.Branch.merge.__doc__ or "")


async def story(lake: aio.Lake, name: str, folder: Path) -> None:
    shop = await lake.create_repository(name)
    assert (shop.name, await shop.namespace) == (name, f"local://{name}")
    assert [each.name async for each in lake.repositories(name)] == [name]
    main = shop.branch("main")
    assert main.address == f"{name}/main" and main == lake[name].branch("main")
    async with main.open("a/1.csv", "w") as file:
        await file.write("id\n1\n")
    assert (await main.upload(folder, "files/")).files == 3
    assert await main.status().first() is not None
    commit = await main.commit("load", {"run": "1"})
    assert (commit.message, commit.metadata) == ("load", {"run": "1"})
    assert [each.path async for each in commit.changes("a/")] == ["a/1.csv"]
    async with commit.open("a/1.csv") as file:
        assert [line async for line in file] == ["id\n", "1\n"]

    dev = await main.create_branch("dev")
    await dev.write_text("a/1.csv", "id\n2\n")
    await dev.commit("change")
    assert [each.type for each in await main.diff(dev).all()] == ["changed"]
    assert (await main.merge(dev)).repository == shop
    assert await main.read_text("a/1.csv") == "id\n2\n"
    assert [piece async for piece in main.stream("a/1.csv")] == [b"id\n2\n"]
    with pytest.raises(FileNotFoundError, match="no"):
        await main.read_bytes("no")
    with pytest.raises(TypeError, match="await"):
        bool(main.status())
    with pytest.raises(AttributeError, match="commmit"):
        _ = main.commmit
    unknown = shop.commit(commit.id[:12])
    with pytest.raises(Invalid, match="await"):
        _ = unknown.message
    assert (await unknown.pin()).message == "load"
    rows = await main.dataset("a/", format="csv")
    assert (await rows.count_rows(), await rows.paths) == (1, ("a/1.csv",))
    assert (await rows.head(1)).to_pylist() == [{"id": 2}]
    pull = await shop.pull_requests.create(dev, "main", "again")
    assert (await shop.pull_requests.get(pull.id)).title == "again"
    assert await lake.admin.may_i("fs:ReadObject", f"arn:lakefs:fs:::repository/{name}/object/a")


def test_the_whole_way_at_a_server(served_lake: Lake, folder: Path) -> None:
    async def run() -> None:
        async with aio.connect(served_lake.url, KEY, SECRET, threads=2) as lake:
            await story(lake, "async-shop", folder)
        with pytest.raises(NotFound):
            served_lake.repository("async-shop").branch("none").pin()

    asyncio.run(run())


def test_the_whole_way_in_a_store(tmp_path: Path, folder: Path) -> None:
    async def run() -> None:
        async with await aio.open(tmp_path / "store") as lake:
            await story(lake, "shop", folder)

    asyncio.run(run())
    with graveler.open(tmp_path / "store") as lake:
        assert lake.repository("shop").exists()


def test_changes_run_at_once_with_checks_that_are_async(lake: Lake) -> None:
    """More of them than threads: their checks make calls, too."""
    lake.create_repository("async-changes")

    async def is_there(work: aio.Branch) -> bool:
        return await work.exists("a/") and not await work.exists("b")

    async def one(main: aio.Branch, path: str) -> None:
        async with (change := main.change(f"write {path}", [is_there])) as work:
            await work.write_text(path, "1")
        assert (change.commit is None) == path.startswith("b")

    async def run() -> None:
        async with pooled(lake, threads=1) as ours:
            main = ours["async-changes"].branch("main")
            await asyncio.gather(*(one(main, f"a/{number}") for number in range(4)))
            with pytest.raises(graveler.Error, match="is_there refused"):
                await one(main, "b")
            assert len(await main.list("a/").all()) == 4 and not await main.exists("b")

    asyncio.run(run())


def test_a_job_that_has_landed_is_known_before_the_block(lake: Lake) -> None:
    lake.create_repository("async-jobs")

    async def run() -> None:
        async with pooled(lake) as ours:
            main = ours["async-jobs"].branch("main")
            for is_known in (False, True):
                change = main.change("load", job="load-1")
                assert await change.has_landed() == is_known
                told = pytest.warns(UserWarning, match="thrown away") if is_known else nullcontext()
                with told:
                    async with change as work:
                        await work.write_text(f"a/{is_known}", "1")
            assert len(await main.list("a/").all()) == 1
            await main.undo(change)
            assert not await main.list("a/").all()

    asyncio.run(run())


def test_a_change_that_is_cancelled_at_its_end_has_landed(lake: Lake) -> None:
    lake.create_repository("async-end")

    async def run() -> None:
        async with pooled(lake) as ours:
            main = ours["async-end"].branch("main")

            async def cancels(work: aio.Branch) -> None:
                task.cancel()
                await work.exists("a")

            async def changes() -> None:
                async with main.change("one", [cancels]) as work:
                    await work.write_text("a", "1")

            task = asyncio.create_task(changes())
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await main.read_text("a") == "1"
            assert [each.name async for each in ours["async-end"].branches()] == ["main"]

    asyncio.run(run())


def test_a_change_whose_block_is_cancelled_is_kept_and_not_merged(lake: Lake) -> None:
    lake.create_repository("async-block")

    async def run() -> None:
        async with pooled(lake) as ours:
            main = ours["async-block"].branch("main")
            with pytest.raises(asyncio.CancelledError):
                async with main.change("one", name="kept") as work:
                    await work.write_text("a", "1")
                    raise asyncio.CancelledError
            assert not await main.exists("a")
            assert await ours["async-block"].branch("kept").read_text("a") == "1"

    asyncio.run(run())


def test_a_call_that_is_cancelled_while_it_waits_for_a_thread_is_not_made(
    lake: Lake, folder: Path
) -> None:
    lake.create_repository("async-wait")
    go_on = threading.Event()

    def waits(_: Transferred) -> None:
        go_on.wait()

    async def run() -> None:
        async with pooled(lake, threads=1) as ours:
            main = ours["async-wait"].branch("main")
            first = asyncio.create_task(main.upload(folder, "files/", progress=waits))
            second = asyncio.create_task(main.write_text("late", "1"))
            await asyncio.sleep(0)  # both have begun: the one thread is taken
            second.cancel()
            go_on.set()
            assert (await first).files == 3
            with pytest.raises(asyncio.CancelledError):
                await second
            assert not await main.exists("late")

    asyncio.run(run())


class pooled:
    """The lake of a fixture for asyncio, which stays open."""

    def __init__(self, lake: Lake, threads: int = 4) -> None:
        self.lake, self.threads = lake, threads

    async def __aenter__(self) -> aio.Lake:
        if isinstance(getattr(self.lake, "folder", None), Path):
            self.opened = await aio.open(self.lake.folder, threads=self.threads)
        else:
            self.opened = aio.connect(self.lake.url, KEY, SECRET, threads=self.threads)
        return self.opened

    async def __aexit__(self, *_: object) -> None:
        await self.opened.__aexit__()


def test_waiting_that_is_cancelled_holds_no_thread(lake: Lake) -> None:
    """A lake of one thread can be used meanwhile, and be closed afterwards."""
    main = lake.create_repository("async-endless").branch("main")
    looked = asyncio.Event()

    class Endless(job.Import):
        def progress(self) -> job.ImportProgress:
            return job.ImportProgress(done=False, objects=1)

    async def run() -> None:
        async with pooled(lake, threads=1) as ours:
            loop = asyncio.get_running_loop()
            endless = aio.Import(Endless(main, "none"), ours._pool)
            with pytest.raises(TimeoutError, match="goes on"):
                await endless.wait(0.01)
            waiting = asyncio.create_task(
                endless.wait(progress=lambda _: loop.call_soon_threadsafe(looked.set))
            )
            await looked.wait()
            assert not await main_of(ours).exists("a")
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    def main_of(ours: aio.Lake) -> aio.Branch:
        found: aio.Branch = ours["async-endless"].branch("main")
        return found

    asyncio.run(run())


def test_files_and_values_are_as_those_of_the_library(lake: Lake) -> None:
    lake.create_repository("async-values")

    async def run() -> None:
        ours = await pooled(lake).__aenter__()
        shop = ours["async-values"]
        main = shop.branch("main")
        await main.write_text("a", "1\n2\n")
        file = main.open("a")
        with pytest.raises(ValueError, match="not open"):
            await file.read()
        async with file:
            assert await file.read(1) == "1" and await file.seek(0) == 0
            assert await file.read() == "1\n2\n"
        started = main.stream("a")
        assert await anext(started) == b"1\n2\n"
        await started.aclose()  # the rest is not wanted
        assert len({main, shop.branch("main")}) == 1 and str(main) == main.address
        assert main.address in repr(main) and "Listing" in repr(main.list())
        with pytest.raises(AttributeError):
            _ = main._place
        await main.commit("a")
        change = main.change("ask", [lambda work: work.exists("b")], pull_request=True)
        async with change as work:
            await work.write_text("b", "1")
        assert change.pull_request.status == "open" and change.commit is None
        await ours.close()

    asyncio.run(run())


def test_a_change_that_is_cancelled_before_its_block_leaves_no_branch(lake: Lake) -> None:
    lake.create_repository("async-begin")

    async def run() -> None:
        async with pooled(lake) as ours:
            main = ours["async-begin"].branch("main")
            entering = asyncio.create_task(main.change("one").__aenter__())
            await asyncio.sleep(0)  # the branch is being made
            entering.cancel()
            with pytest.raises(asyncio.CancelledError):
                await entering
            assert [each.name async for each in ours["async-begin"].branches()] == ["main"]

    asyncio.run(run())
