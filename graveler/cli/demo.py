"""`graveler demo`: serves a store with sample data; the first run also plays the story (story.py).

The service runs in the main thread and ends on SIGINT or SIGTERM, like `graveler serve`.  The story
runs in a second thread, as a client of the service.  With `--once` the service ends after the
story.
"""

import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from graveler.assembly import Embedded
from graveler.auth.credentials import NewCredential
from graveler.cli import administrator
from graveler.cli.host import Running
from graveler.cli.options import DemoOptions, Listen, ServeOptions
from graveler.cli.sample import REPOSITORY, SAMPLES
from graveler.cli.service import run
from graveler.engine.commits import log
from graveler.engine.ports import Ports, open_repository
from graveler.engine.repositories import repository
from graveler.errors import Conflict, GravelerError, NotFound
from graveler.records import ABSENT
from graveler.settings import administrator_keys, environment

_THREAD_SECONDS = 5.0


@dataclass(slots=True)
class DemoState:
    """The state of one demo: its inputs, the thread of the story, and how the story ended."""

    options: DemoOptions
    credential: NewCredential = NewCredential("", "")  # noqa: RUF009
    is_played: bool = False
    failure: str = ""
    thread: threading.Thread | None = None


def demo(options: DemoOptions) -> int:
    """Serve, and play the story.  Returns 0 after the story (`--once`) or a graceful stop, 1 if the
    story failed."""
    state = DemoState(options)

    def prepare(store: Embedded, listen: Listen) -> None:
        keys = administrator_keys(environment())
        chosen = NewCredential(keys.access_key_id, keys.secret_access_key) if keys.given else ABSENT
        state.credential = administrator.kept(store, options.store, listen.url, chosen)
        state.is_played = _is_played(store.ports)

    def on_ready(running: Running) -> None:
        state.thread = threading.Thread(
            target=_play, args=(state, running), name="story", daemon=True
        )
        state.thread.start()

    served = ServeOptions(options.store, options.listen, insecure_http=options.insecure_http)
    try:
        run(served, prepare, on_ready)
    finally:
        if state.thread is not None:
            state.thread.join(_THREAD_SECONDS)
    if state.failure:
        print(f"graveler demo: the story failed: {state.failure}", file=sys.stderr)
        return 1
    _say("graveler: stopped")
    return 0


def _play(state: DemoState, running: Running) -> None:
    url = running.listen.url
    try:
        _say(f"Graveler serves {state.options.store} at {url}")
        if state.is_played:
            _say(f"The sample repository {REPOSITORY} exists from an earlier run.")
        else:
            from graveler.cli import story

            story.tell(url, state.credential, _say)
        _say(_next_steps(state.options.store, url))
    except Exception as error:  # after any error the service must still stop gracefully
        if not running.stopping():  # if the service is stopping, an unfinished story is no failure
            state.failure = _reason(error)
            running.stop()
        return
    if state.options.once:
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
    lake = f'import lakefs; r = lakefs.repository("{REPOSITORY}")'
    return f"""
  URL          {url} (API: {url}/api/v1, OpenAPI: {url}/openapi.json)
  credentials  {file} (mode 0600; new ones: graveler credentials reset)

Load the credentials into a shell ( . {dot} ), then try:

  {curl} "{refs}/main/commits?amount=5"
  {curl} "{refs}/main/objects?path=airports/IS.csv"
  {curl} "{refs}/ingest~2/diff/ingest~1?amount=3"
  {python} -P -c '{lake}; print(*[c.message for c in r.ref("main").log()], sep="\\n")'
  {python} -P -c '{lake}; b = r.branch("mine").create("main", exist_ok=True); \
b.object("note.txt").upload("hello"); print(*b.uncommitted())'
"""


def _relative(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def _say(text: str) -> None:
    print(text, flush=True)
