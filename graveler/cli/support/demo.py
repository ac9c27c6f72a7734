"""`graveler demo`: serves a store with sample data; the first run also plays the story.

    main    ○─┬──────────────────────────────────┬─○  tag
    ingest    └─ load ── bad change ── its revert ┘

The story runs in a second thread, as a client of the service: it versions the airports of the
package `airportsdata` with the Python library.
"""

import csv
import io
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from graveler.assembly import Embedded
from graveler.auth.credentials import NewCredential
from graveler.cli.support import administrator
from graveler.cli.support.host import Running
from graveler.cli.support.serve_options import Listen, ServeOptions
from graveler.cli.support.service import run
from graveler.core.clock import SystemClock, SystemIds
from graveler.core.errors import Conflict, GravelerError, NotFound
from graveler.core.records import ABSENT
from graveler.core.settings import administrator_keys, environment
from graveler.engine.commits import log
from graveler.engine.ports import Ports, open_repository
from graveler.engine.repositories import repository
from graveler.http.front import Front
from graveler.lake.branch import Branch
from graveler.lake.lake import Lake, connect
from graveler.lake.repository import Repository

_THREAD_SECONDS = 5.0


@dataclass(slots=True)
class _State:
    """One demo: its store, how it ends, the thread of the story, and how the story ended."""

    store: Path
    once: bool
    credential: NewCredential = NewCredential("", "")  # noqa: RUF009
    is_played: bool = False
    failure: str = ""
    thread: threading.Thread | None = None


def demo(store: Path, listen: Listen, front: Front, *, once: bool) -> int:
    """Serve, and play the story.  Returns 0 after the story (`once`) or a graceful stop, 1 if the
    story failed."""
    state = _State(store, once)

    def prepare(opened: Embedded, listen: Listen) -> None:
        keys = administrator_keys(environment())
        chosen = NewCredential(keys.access_key_id, keys.secret_access_key) if keys.given else ABSENT
        state.credential = administrator.kept(opened, store, listen.url, chosen)
        state.is_played = _is_played(opened.ports)

    def on_ready(running: Running) -> None:
        state.thread = threading.Thread(
            target=_play, args=(state, running), name="story", daemon=True
        )
        state.thread.start()

    try:
        run(ServeOptions(store, listen, front=front), prepare, on_ready)
    finally:
        if state.thread is not None:
            state.thread.join(_THREAD_SECONDS)
    if state.failure:
        print(f"graveler demo: the story failed: {state.failure}", file=sys.stderr)
        return 1
    _say("graveler: stopped")
    return 0


def _play(state: _State, running: Running) -> None:
    url = running.listen.url
    try:
        _say(f"Graveler serves {state.store} at {url}")
        if state.is_played:
            _say(f"The sample repository {REPOSITORY} exists from an earlier run.")
        else:
            tell(url, state.credential, _say)
        _say(_next_steps(state.store, url))
    except Exception as error:  # after any error the service must still stop gracefully
        if not running.stopping():  # if the service is stopping, an unfinished story is no failure
            state.failure = _reason(error)
            running.stop()
        return
    if state.once:
        running.stop()
    else:
        _say("Serving until interrupted (Ctrl-C).")


def _is_played(ports: Ports) -> bool:
    """Whether an earlier run reached the end of the story: the head of the default branch is not
    the first commit, so a merge has landed.  Raises `Conflict` if the user made a repository of
    that name."""
    try:
        repo = repository.get(ports, REPOSITORY)
    except NotFound:
        return False
    if not repo.namespace.startswith(SAMPLES):
        raise Conflict(
            f"the store already has a repository {REPOSITORY}, which the sample would change: "
            "choose another store"
        )
    return bool(log.get_commit(open_repository(ports, repo), repo.default_branch).commit.parents)


def _reason(error: Exception) -> str:
    if isinstance(error, GravelerError):
        return str(error)
    return f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"


def _next_steps(store: Path, url: str) -> str:
    python = _relative(Path(sys.executable))
    file = _relative(Path(os.path.abspath(store / administrator.FILE)))
    dot = file if file.startswith("/") else f"./{file}"
    refs = f"$GRAVELER_API/repositories/{REPOSITORY}/refs"
    curl = 'curl -su "$GRAVELER_AUTH"'
    lake = f'import graveler; main = graveler.connect()["{REPOSITORY}"].branch("main")'
    return f"""
  URL          {url} (page, API and S3; the API: {url}/docs)
  credentials  {file} (mode 0600; new ones: graveler credentials reset)

Load the credentials into a shell ( . {dot} ), then try:

  {curl} "{refs}/main/commits?amount=5"
  {curl} "{refs}/main/objects?path=airports/IS.csv"
  {curl} "{refs}/ingest~2/diff/ingest~1?amount=3"
  {python} -P -c '{lake}; print(main.log(limit=5)); print(main.read_text("airports/IS.csv")[:99])'
  {python} -P -c '{lake}; mine = main.repository.create_branch("mine", exist_ok=True); \
mine.write_text("note.txt", "hello"); print(mine.status())'
"""


def _relative(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def _say(text: str) -> None:
    print(text, flush=True)


REPOSITORY = "airports"
SAMPLES = "local://samples/"  # the sample repository's storage namespace is always below this
COLUMNS = ("icao", "iata", "name", "city", "subd", "elevation", "lat", "lon", "tz")


class Sample(NamedTuple):
    """Rows by country, and the version of the package."""

    countries: Mapping[str, list[Mapping[str, object]]]
    version: str

    @property
    def rows(self) -> int:
        """The number of airports in all countries."""
        return sum(map(len, self.countries.values()))


def load() -> Sample:
    """The airports, sorted by country and ICAO code."""
    import airportsdata

    countries: dict[str, list[Mapping[str, object]]] = {}
    for _, airport in sorted(airportsdata.load("ICAO").items()):
        countries.setdefault(airport["country"], []).append(airport)
    return Sample(dict(sorted(countries.items())), airportsdata.__version__)


def path_of(country: str) -> str:
    """The path of a country's file in the repository."""
    return f"airports/{country}.csv"


def file_of(rows: list[Mapping[str, object]]) -> bytes:
    """The content of a country's file: CSV with a header."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def spoiled(rows: list[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """The rows with latitude and longitude exchanged, as if by a job with a bug."""
    return [{**row, "lat": row["lon"], "lon": row["lat"]} for row in rows]


MAIN = "main"
INGEST = "ingest"
SPOILED_PREFIX = "S"  # the bad change affects the countries that begin with it


@dataclass(slots=True)
class Narrator:
    """Prints each step and its duration in seconds."""

    say: Callable[[str], None]
    clock: SystemClock

    @contextmanager
    def step(self) -> Iterator[list[str]]:
        """Time one step.  The caller appends the sentence to print to the list."""
        started, words = self.clock.steady_seconds(), list[str]()
        yield words
        seconds = self.clock.steady_seconds() - started
        self.say(f"  {seconds:6.2f} s  {' '.join(words)}")


def tell(url: str, credential: NewCredential, say: Callable[[str], None]) -> None:
    """Play the story from the beginning.  First it deletes the branch that an interrupted story
    left behind."""
    narrator = Narrator(say, SystemClock())
    with narrator.step() as words:
        airports = load()
        words.append(
            f"read the sample: {airports.rows:,} airports of {len(airports.countries)} countries"
        )
    lake = connect(url, credential.access_key_id, credential.secret_access_key)
    repository = _begin(narrator, lake)
    ingest = repository.branch(INGEST)
    _load(narrator, ingest, airports)
    _spoil(narrator, repository, airports)
    _roll_back(narrator, repository)
    _publish(narrator, repository, airports)


def _begin(narrator: Narrator, lake: Lake) -> Repository:
    with narrator.step() as words:
        namespace = f"{SAMPLES}{REPOSITORY}-{SystemIds().unique(8)}"
        repository = lake.create_repository(
            REPOSITORY, namespace, default_branch=MAIN, exist_ok=True
        )
        if any(branch.name == INGEST for branch in repository.branches()):
            repository.delete_branch(INGEST)
        repository.create_branch(INGEST, MAIN)
        words.append(f"created repository {REPOSITORY}, and branch {INGEST} from {MAIN}")
    return repository


def _load(narrator: Narrator, ingest: Branch, airports: Sample) -> None:
    with narrator.step() as words:
        size = 0
        for country, rows in airports.countries.items():
            body = file_of(rows)
            ingest.write_bytes(path_of(country), body, content_type="text/csv")
            size += len(body)
        words.append(
            f"uploaded {len(airports.countries)} CSV files ({size / 1e6:.1f} MB) to {INGEST}; "
            f"readers of {MAIN} do not see them"
        )
    with narrator.step() as words:
        commit = ingest.commit(
            f"Load airports of {len(airports.countries)} countries",
            {"source": "airportsdata", "version": airports.version},
        )
        words.append(f"committed them as {commit.id[:12]}")


def _spoil(narrator: Narrator, repository: Repository, airports: Sample) -> None:
    ingest = repository.branch(INGEST)
    with narrator.step() as words:
        hit = [country for country in airports.countries if country.startswith(SPOILED_PREFIX)]
        for country in hit:
            body = file_of(spoiled(airports.countries[country]))
            ingest.write_bytes(path_of(country), body, content_type="text/csv")
        bad = ingest.commit("Normalise coordinates")
        words.append(
            f"committed a bad change as {bad.id[:12]}: a job exchanged latitude and longitude "
            f"in {len(hit)} files"
        )
    with narrator.step() as words:
        changes = repository.ref(f"{INGEST}~1").diff(INGEST).all()
        assert {change.type for change in changes} == {"changed"}
        words.append(
            f"diff {INGEST}~1 {INGEST} shows {len(changes)} changed files: "
            f"{changes[0].path} … {changes[-1].path}"
        )


def _roll_back(narrator: Narrator, repository: Repository) -> None:
    ingest = repository.branch(INGEST)
    with narrator.step() as words:
        undone = ingest.revert(INGEST)
        differences = repository.ref(f"{INGEST}~2").diff(INGEST)
        assert not differences, "the revert must restore the content of the first commit"
        words.append(
            f"reverted it as {undone.id[:12]}: the files are again those of the first commit"
        )


def _publish(narrator: Narrator, repository: Repository, airports: Sample) -> None:
    with narrator.step() as words:
        main = repository.branch(MAIN)
        merged = main.merge(INGEST, "Publish the airports")
        count = len(main.list("airports/").all())
        assert count == len(airports.countries)
        words.append(
            f"merged {INGEST} into {MAIN} as {merged.id[:12]}: {count} files appear at once"
        )
    with narrator.step() as words:
        words.append(f"tagged it {main.tag(f'airports-{airports.version}').name}")
