"""Twelve pages of one lake, which is the same in every run; as a program, a sheet of pictures.

    .venv/bin/python -m tests.ui.pictures [FOLDER]     # build/pictures/sheet.html

The sheet has the ten tasks that the page is made for, each with its picture in light and dark.
"""

import argparse
import html
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow
import pyarrow.parquet
from playwright.sync_api import Browser, Page, Route

from graveler.api.local import open_service
from graveler.assembly import open_memory
from graveler.assembly.aws import StorageSigns
from graveler.auth import accounts
from graveler.http.service import ServiceSettings
from tests.api.serving import ADMINISTRATOR, ANY_NUMBER, USER, Client, listening
from tests.support.clockwork import SeededIds, TickingClock
from tests.ui.scene import ROOT, Scene, good, launched, watched

REPO: Final = "sales"
SIZE: Final = (1200, 760)
SEED: Final = 7
HOUR: Final = 3_600
SECRET: Final = bytes(32)
RUN: Final = "5f2b9c31"
JOB: Final = "01imp0rt"


def press(name: str) -> Callable[[Page], None]:
    return lambda page: page.get_by_role("button", name=name).first.click()


def stay(page: Page) -> None:
    """The page as it is opened."""


@dataclass(frozen=True)
class Picture:
    """A page, what is done on it first, and the task that it is for."""

    name: str
    task: str
    place: str
    act: Callable[[Page], None] = stay


R: Final = f"/repositories/{REPO}"
BOTH: Final = "compare?ref=main&compare=corrections"
PICTURES: Final = (
    Picture("repositories", "Where everybody begins: repositories, last commits, jobs", "/"),
    Picture(
        "file",
        "1. Open a file at a ref, send the link: the address is the link, y pins the commit",
        f"{R}/object?ref=main&path=README.md",
    ),
    Picture(
        "changes",
        "2. Review and commit changes, with totals of each folder",
        f"{R}/objects?ref=corrections&showChanges=true",
    ),
    Picture(
        "merge",
        "3. Merge a branch into main: what it changes, and its message",
        f"{R}/{BOTH}",
    ),
    Picture(
        "conflict",
        "4. Resolve conflicts, each file or folder by itself",
        f"{R}/compare?ref=main&compare=rival",
    ),
    Picture(
        "undo",
        "5. Undo a commit, with what that changes",
        f"{R}/commits/{{head}}",
        press("Undo"),
    ),
    Picture(
        "history",
        "6. Who changed this file: all versions with their differences",
        f"{R}/commits?ref=main&path=orders/2026.parquet",
    ),
    Picture(
        "parquet",
        "7. Look into a Parquet file: schema, statistics, rows",
        f"{R}/object?ref=main&path=orders/2026.parquet",
    ),
    Picture(
        "rows",
        "8. What changed in a table file: rows, cells, totals of columns",
        f"{R}/{BOTH}&file=orders/2026.parquet",
    ),
    Picture(
        "hook",
        "9. Why a hook refused: the error leads to this log",
        f"{R}/actions/{RUN}",
    ),
    Picture(
        "job",
        "10. Import, watch, cancel: count, rate, heartbeat",
        f"{R}/jobs/{JOB}",
    ),
    Picture("commits", "And all of it as one graph", f"{R}/commits?ref=main,corrections,rival"),
)


@contextmanager
def lake() -> Iterator[tuple[Client, dict[str, str]]]:
    """A service on the memory drivers with a fixed time and fixed ids; what places name."""
    clock = TickingClock()
    ports = open_memory(clock, SeededIds(SEED))
    settings = ServiceSettings(failed_logins=ANY_NUMBER, blockstore_type="mem")
    service = open_service(ports, StorageSigns(), SECRET, settings)
    keeper = accounts.keeper(ports.kv, ports.clock, ports.ids, SECRET)
    accounts.create(keeper, USER, "", ADMINISTRATOR)
    with listening(service) as (client, _):
        yield client, _filled(client, clock)


def _filled(client: Client, clock: TickingClock) -> dict[str, str]:
    def put(method: str, where: str, body: Any) -> Any:
        clock.sleep(HOUR)
        return good(client.send(method, where, body=body))

    def commit(branch: str, message: str, **files: bytes) -> str:
        for name, content in files.items():
            path = name.replace("__", "/").replace("_csv", ".csv").replace("_parquet", ".parquet")
            client.upload(REPO, path.replace("_md", ".md"), content, branch)
        made = put("POST", f"{R}/branches/{branch}/commits", {"message": message})
        return str(made["id"])

    def branch(name: str) -> None:
        put("POST", f"{R}/branches", {"name": name, "source": "main"})

    for name in ("archive", REPO):
        put("POST", "/repositories", {"name": name, "storage_namespace": f"mem://{name}"})
    commit("main", "First files", README_md=README, customers_csv=CUSTOMERS)
    commit("main", "Orders of 2026", orders__2026_parquet=table(0), orders__2025_csv=CUSTOMERS)
    commit("main", "Orders of December", orders__2026_parquet=table(1))
    branch("corrections")
    branch("rival")
    commit("corrections", "Correct the amounts of Lima", orders__2026_parquet=table(5))
    commit("rival", "Another spelling", customers_csv=CUSTOMERS.replace(b"Ada", b"Ada L."))
    head = commit("main", "Names in full", customers_csv=CUSTOMERS.replace(b"Ada", b"Ada Lovelace"))
    for path in ("staged/a.csv", "staged/b.csv", "customers.csv"):
        client.upload(REPO, path, b"id\n1\n", "corrections")
    clock.sleep(HOUR)
    return {"head": head, "now": f"{clock.now_ns() // 1_000_000}"}


README: Final = b"# Sales\n\nOrders of all cities, one file a year.\n\n- `orders/` has the orders\n"
CUSTOMERS: Final = b"id,name\n1,Ada\n2,Grace\n3,Edsger\n"
CITIES: Final = ("Oslo", "Rome", "Lima", "Cairo", "Quito", "Hanoi")


def table(more: int) -> bytes:
    """Orders; those of Lima have so much more."""
    rows = range(60)
    city = [CITIES[number % len(CITIES)] for number in rows]
    amount = [number * 10 + (more if city[number] == "Lima" else 0) for number in rows]
    sink = io.BytesIO()
    pyarrow.parquet.write_table(
        pyarrow.table({"id": list(rows), "city": city, "amount": amount}), sink
    )
    return sink.getvalue()


@contextmanager
def shown(browser: Browser, client: Client, known: dict[str, str]) -> Iterator[Scene]:
    """The lake in a window of a fixed time; a refused commit and an import are made up."""
    with watched(browser, client, size=SIZE, key=ADMINISTRATOR, cold=True) as made:
        made.page.clock.set_fixed_time(datetime.fromtimestamp(int(known["now"]) / 1000, UTC))
        for pattern, answer in _made_up(known["head"]).items():
            made.page.route(f"**/api/v1{R}/{pattern}", _answering(answer))
        yield made


def _answering(answer: Any) -> Callable[[Route], None]:
    if isinstance(answer, str):
        return lambda route: route.fulfill(body=answer, content_type="text/plain")
    return lambda route: route.fulfill(json=answer)


def _made_up(head: str) -> dict[str, Any]:
    times = {"start_time": "2023-11-15T09:00:00Z", "end_time": "2023-11-15T09:00:02Z"}
    run = {"run_id": RUN, "branch": "main", "commit_id": head, "event_type": "pre-commit"}
    hook = {"hook_run_id": "h1", "action": "Quality", "hook_id": "no-empty-columns"}
    job = {
        **{"id": JOB, "kind": "import", "state": "running", "branch": "main", "committer": USER},
        **{"create_time": "2023-11-15T09:00:00Z", "update_time": "2023-11-15T09:01:28Z"},
        "progress": {"done": 640_000, "total": None, "unit": "objects", "per_second": 7_272},
        **{"attempts": 1, "cancellable": True, "commit_id": "", "waits_for": ""},
    }
    return {
        f"actions/runs/{RUN}": {**run, **times, "status": "failed"},
        f"actions/runs/{RUN}/hooks*": {
            "results": [{**hook, **times, "status": "failed"}],
            "pagination": {"has_more": False, "next_offset": "", "results": 1, "max_per_page": 100},
        },
        f"actions/runs/{RUN}/hooks/h1/output": LOG,
        f"jobs/{JOB}": job,
    }


LOG: Final = (
    "POST https://checks.example.org/quality\n412 Precondition Failed\ncolumn city is empty\n"
)


def taken(
    scene: Scene, picture: Picture, known: dict[str, str]
) -> Iterator[tuple[Literal["light", "dark"], bytes]]:
    """The picture of a page in light, and in dark."""
    place = picture.place.format(**known)
    if scene.page.url.startswith(scene.client.url):
        scene.go(place)
    else:
        scene.open(place)
    picture.act(scene.page)
    scene.settle()
    moving = [scene.page.locator("progress:not([value])")]
    schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    for scheme in schemes:
        scene.page.emulate_media(color_scheme=scheme)
        yield scheme, scene.page.screenshot(animations="disabled", caret="hide", mask=moving)
    scene.page.emulate_media(color_scheme="light")


def main(folder: Path) -> None:
    """Write the pictures and the sheet."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        launched() as browser,
        lake() as (client, known),
        shown(browser, client, known) as scene,
    ):
        for picture in PICTURES:
            for scheme, image in taken(scene, picture, known):
                (folder / f"{picture.name}-{scheme}.png").write_bytes(image)
    sheet = folder / "sheet.html"
    sheet.write_text(_sheet(), encoding="utf-8")
    print(sheet)


def _sheet() -> str:
    cells = "".join(
        f"<figure><figcaption>{html.escape(each.task)}</figcaption>"
        f'<img src="{each.name}-light.png"><img src="{each.name}-dark.png"></figure>'
        for each in PICTURES
    )
    style = (
        "body{font:16px sans-serif;margin:20px;display:grid;gap:20px;"
        "grid-template-columns:repeat(auto-fit,minmax(720px,1fr))}"
        "figure{margin:0}img{width:50%;vertical-align:top}"
    )
    return (
        f"<!doctype html><meta charset=utf-8><title>The page</title><style>{style}</style>{cells}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Makes a sheet of pictures of the page.")
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "build" / "pictures")
    main(parser.parse_args().folder)
