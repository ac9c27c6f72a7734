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
from graveler.auth.accounts import NewCredential
from graveler.cli import administrator
from graveler.cli.options import DemoOptions, Listen, ServeOptions
from graveler.cli.sample import REPOSITORY
from graveler.cli.service import Running, run
from graveler.cli.told import told
from graveler.errors import GravelerError
from graveler.records import ABSENT
from graveler.settings import administrator_keys, environment

_THREAD_SECONDS = 5.0


@dataclass(slots=True)
class Telling:
    """The state of one demo: its inputs, the thread of the story, and how the story ended."""

    options: DemoOptions
    credential: NewCredential = NewCredential("", "")  # noqa: RUF009
    told_before: bool = False
    failure: str = ""
    thread: threading.Thread | None = None


def demo(options: DemoOptions) -> int:
    """Serve, and play the story.  Returns 0 after the story (`--once`) or a graceful stop, 1 if the
    story failed."""
    telling = Telling(options)

    def prepare(store: Embedded, listen: Listen) -> None:
        keys = administrator_keys(environment())
        given = NewCredential(keys.access_key_id, keys.secret_access_key) if keys.given else ABSENT
        telling.credential = administrator.kept(store, options.store, listen.url, given)
        telling.told_before = told(store.ports)

    def on_ready(running: Running) -> None:
        telling.thread = threading.Thread(
            target=_tell, args=(telling, running), name="story", daemon=True
        )
        telling.thread.start()

    try:
        run(ServeOptions(options.store, options.listen), prepare, on_ready)
    finally:
        if telling.thread is not None:
            telling.thread.join(_THREAD_SECONDS)
    if telling.failure:
        print(f"graveler demo: the story failed: {telling.failure}", file=sys.stderr)
        return 1
    _say("graveler: stopped")
    return 0


def _tell(telling: Telling, running: Running) -> None:
    url = running.listen.url
    try:
        _say(f"Graveler serves {telling.options.store} at {url}")
        if telling.told_before:
            _say(f"The sample repository {REPOSITORY} is there from an earlier run.")
        else:
            from graveler.cli import story

            story.tell(url, telling.credential, _say)
        _say(_next_steps(telling.options.store, url))
    except Exception as error:  # after any error the service must still stop gracefully
        if not running.stopping():  # if the service is stopping, an unfinished story is no failure
            telling.failure = _reason(error)
            running.stop()
        return
    if telling.options.once:
        running.stop()
    else:
        _say("Serving until interrupted (Ctrl-C).")


def _reason(error: Exception) -> str:
    if isinstance(error, GravelerError):
        return str(error)
    return f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"


def _next_steps(store: Path, url: str) -> str:
    python = _relative(Path(sys.executable))
    kept = _relative(Path(os.path.abspath(store / administrator.FILE)))
    dot = kept if kept.startswith("/") else f"./{kept}"
    refs = f"$GRAVELER_API/repositories/{REPOSITORY}/refs"
    curl = 'curl -su "$GRAVELER_AUTH"'
    lake = f'import lakefs; r = lakefs.repository("{REPOSITORY}")'
    return f"""
  URL          {url} (API: {url}/api/v1, its description: {url}/openapi.json)
  credentials  {kept} (mode 0600; new ones: graveler credentials reset)

Try next, in a shell that has read the credentials ( . {dot} ):

  {curl} "{refs}/main/commits?amount=5"
  {curl} "{refs}/main/objects?path=airports/IS.csv"
  {curl} "{refs}/ingest~2/diff/ingest~1?amount=3"
  {python} -c '{lake}; print(*[c.message for c in r.ref("main").log()], sep="\\n")'
  {python} -c '{lake}; b = r.branch("mine").create("main", exist_ok=True); \
b.object("note.txt").upload("hello"); print(*b.uncommitted())'
"""


def _relative(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def _say(text: str) -> None:
    print(text, flush=True)
