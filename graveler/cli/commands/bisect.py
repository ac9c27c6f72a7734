"""`graveler bisect`: which commit brought a fault, by tests of few commits.

The candidates are the commits that lead to the bad one and to no good one; the bad commit itself is
one of them.  Every answer removes some:

    good X    X and all that leads to X
    bad X     all that does not lead to X
    skip X    none; X is not proposed again

The proposal divides the candidates best.  The search ends when one candidate is left: it is the
first bad commit.  If only skipped commits are left beside it, each of them may be the first.
"""

import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from graveler.cli.commands.log import log_of_all
from graveler.cli.support import times
from graveler.cli.support.address import Address
from graveler.cli.support.command import client, group
from graveler.cli.support.failures import DONE
from graveler.cli.support.invocation import Invocation
from graveler.cli.support.options import address_argument, at
from graveler.cli.support.output import Output, first_line, plain, plural
from graveler.cli.support.output import field as column
from graveler.core.errors import GravelerError, Invalid, NotFound, Unsupported, UsageMistake
from graveler.core.settings import environment
from graveler.lake import state

if TYPE_CHECKING:
    from graveler.lake.ref import Commit

_FILE: Final = "bisect.json"
_CANDIDATES_MAX: Final = 10_000
_HISTORY_MAX: Final = 1_000_000  # commits that are read to find the candidates
_SKIP_CODE: Final = 125
_STOP_CODE: Final = 126  # 126 and 127 are how shells say that a command cannot start
_VARIABLE: Final = "GRAVELER_BISECT_ADDRESS"
_COLUMNS: Final = (column("verdict"), column("id", "id", "COMMIT"), column("message"))
_CANDIDATE_COLUMNS: Final = (
    column("id", "id", "COMMIT"),
    column("date", "time", "DATE"),
    column("message"),
)


@dataclass
class Search:
    """A search.  `candidates` come parents first; the last one is the first known bad commit."""

    server: str
    repository: str
    candidates: list[dict[str, Any]]  # id, parents, message, date
    skipped: list[str] = field(default_factory=list)
    answers: list[dict[str, str]] = field(default_factory=list)  # verdict, id, message

    def knows(self, id: str) -> bool:
        return any(each["id"] == id for each in self.candidates)

    def subject(self, id: str) -> str:
        return next((str(each["message"]) for each in self.candidates if each["id"] == id), "")


# ---- the search itself ---------------------------------------------------------------------------


def ancestors(candidates: list[dict[str, Any]]) -> dict[str, int]:
    """For each candidate, the set of candidates that lead to it, itself included, as bits."""
    places = {each["id"]: place for place, each in enumerate(candidates)}
    sets: dict[str, int] = {}
    for place, each in enumerate(candidates):
        bits = 1 << place
        for parent in each["parents"]:
            if parent in places:
                bits |= sets[parent]
        sets[each["id"]] = bits
    return sets


def proposal(search: Search) -> str:
    """The commit to test next; empty if no test can tell more."""
    sets, number = ancestors(search.candidates), len(search.candidates)
    open_ones = [each["id"] for each in search.candidates[:-1] if each["id"] not in search.skipped]

    def gain(id: str) -> int:
        size = sets[id].bit_count()
        return min(size, number - size)

    return str(max(open_ones, key=gain, default=""))


def answer(search: Search, id: str, verdict: str) -> None:
    """Take in a verdict on a candidate.  Raises `Invalid` if it contradicts earlier ones."""
    subject = search.subject(id)
    if verdict == "skip":
        search.skipped.append(id)
    else:
        bits = ancestors(search.candidates)[id]
        if verdict == "good" and id == search.candidates[-1]["id"]:
            raise Invalid(f"{id[:12]} is bad already: a commit cannot be both")
        is_left = verdict == "bad"
        search.candidates = [
            each
            for place, each in enumerate(search.candidates)
            if bool(bits >> place & 1) == is_left
        ]
    search.answers.append({"verdict": verdict, "id": id, "message": subject})


# ---- its file ------------------------------------------------------------------------------------


def _file() -> Path:
    return state.folder(environment()) / _FILE


def _read() -> Search:
    text = state.read(_file())
    if not text:
        raise NotFound("no search runs: graveler bisect start BAD GOOD")
    try:
        values = json.loads(text)
        return Search(**{each.name: values[each.name] for each in fields(Search)})
    except (ValueError, KeyError, TypeError) as error:
        raise Invalid(f"file is damaged: {_file()}: run graveler bisect reset") from error


def _write(search: Search) -> None:
    state.write(_file(), json.dumps(asdict(search)))


# ---- commands ------------------------------------------------------------------------------------


@group("bisect")
def bisect() -> None:
    """Find the commit that brought a fault."""


@client(
    "start",
    group=bisect,
    examples=(
        "graveler bisect start lake/main v1.2           # main is bad, v1.2 was good",
        "graveler bisect start lake/main~3 lake/main~40",
        "graveler bisect start lake/main --at '2 weeks ago'  # main was good then",
    ),
)
@address_argument("bad")
@address_argument("good", nargs=-1, metavar="[GOOD...]")
@at
def start(invocation: Invocation, bad: str, good: tuple[str, ...]) -> int:
    """Begin a search between a commit that is BAD and commits that are GOOD.

    BAD --at TIME takes what BAD was then as GOOD, also if BAD has a time of its own, as in
    main@{yesterday}; with GOOD, all are as they were then.
    It replaces a search that runs.  All searches of a user share one file.
    """
    first, others = _ends(invocation, bad, good)
    name = first.repository
    if any(each.repository != name for each in others):
        raise UsageMistake("all commits must be in one repository")
    known = [invocation.commit(each) for each in others]
    worst = invocation.commit(first)
    candidates = _candidates(worst, known)
    if not candidates:
        raise Invalid("nothing to search: BAD leads to a GOOD commit, or is one")
    search = Search(invocation.session.url, name, candidates)
    search.answers.append({"verdict": "bad", "id": worst.id, "message": candidates[-1]["message"]})
    search.answers += [
        {"verdict": "good", "id": each.id, "message": first_line(each.message)} for each in known
    ]
    return _next(invocation, search)


def _ends(invocation: Invocation, bad: str, good: tuple[str, ...]) -> tuple[Address, list[Address]]:
    """The bad commit and the good ones, at the time of `--at`, or at the times that addresses have.
    Without GOOD, `--at` is the time at which the branch of BAD was good."""
    first = invocation.ref(bad)
    if not good and not times.is_past(invocation):
        raise UsageMistake("no GOOD commit: name one, or give --at TIME, when BAD was good")
    if not good:
        start, end = times.since(invocation, first)
        return end, [start]
    return times.then(invocation, first), [
        times.then(invocation, invocation.ref(each)) for each in good
    ]


def _candidates(bad: "Commit", good: "list[Commit]") -> list[dict[str, Any]]:
    """The commits that lead to `bad` and to no good one, parents first."""
    known = set[str]()
    for commit in log_of_all(good):
        known.add(commit.id)
        _check_bound(len(known), _HISTORY_MAX, "commits lead to the good ones")
    candidates: list[dict[str, Any]] = []
    open_ends = {bad.id} - known  # a log has children before parents
    for commit in bad.log():
        if not open_ends:
            break
        if commit.id not in open_ends:
            continue
        parents = [each.name for each in commit.parents]
        open_ends.discard(commit.id)
        open_ends.update(set(parents) - known)
        candidates.append(
            {
                "id": commit.id,
                "parents": parents,
                "message": first_line(commit.message),
                "date": commit.answer["creation_date"],
            }
        )
        _check_bound(len(candidates), _CANDIDATES_MAX, "commits are between BAD and GOOD")
    return candidates[::-1]


def _check_bound(number: int, bound: int, words: str) -> None:
    if number > bound:
        raise Unsupported(f"more than {bound:,} {words}: name commits that are closer")


def _judge(invocation: Invocation, verdict: str, ref: str | None) -> int:
    search = _read()
    _check_server(invocation, search)
    id = proposal(search)
    if ref is None and times.is_past(invocation):
        raise UsageMistake("--at needs a REF")
    if ref is not None:
        invocation.subject = invocation.subject or Address(search.repository)
        place = times.then(invocation, invocation.ref(ref))
        id = invocation.commit(place).id
    if not id:
        return _next(invocation, search)
    if not search.knows(id):
        raise Invalid(f"{id[:12]} is no candidate: it was decided already: graveler bisect view")
    answer(search, id, verdict)
    return _next(invocation, search)


def _check_server(invocation: Invocation, search: Search) -> None:
    if search.server != invocation.session.url:
        raise UsageMistake(f"the search runs on {search.server}: use its profile, or reset it")


@client("good", group=bisect, examples=("graveler bisect good", "graveler bisect good main~7"))
@address_argument("ref", required=False)
@at
def good(invocation: Invocation, ref: str | None) -> int:
    """Say that the proposed commit, or REF, has no fault."""
    return _judge(invocation, "good", ref)


@client("bad", group=bisect, examples=("graveler bisect bad", "graveler bisect bad main~7"))
@address_argument("ref", required=False)
@at
def bad(invocation: Invocation, ref: str | None) -> int:
    """Say that the proposed commit, or REF, has the fault."""
    return _judge(invocation, "bad", ref)


@client("skip", group=bisect, examples=("graveler bisect skip", "graveler bisect skip main~7"))
@address_argument("ref", required=False)
@at
def skip(invocation: Invocation, ref: str | None) -> int:
    """Say that the proposed commit, or REF, cannot be tested."""
    return _judge(invocation, "skip", ref)


@client(
    "run",
    group=bisect,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    examples=(
        "graveler bisect run ./check.sh",
        "graveler bisect run python check.py {}",
    ),
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(invocation: Invocation, command: tuple[str, ...]) -> int:
    """Test commit after commit with a command, until the first bad one is known.

    `{}` in the arguments becomes the address of the commit, such as lakefs://lake/1a2b; it is in
    the variable GRAVELER_BISECT_ADDRESS too.  The command ends with 0 for good, 125 for skip, and
    any other code below 126 for bad.  126 and more, a signal or a command that cannot start stop
    the search; it can go on later.
    """
    search = _read()
    _check_server(invocation, search)
    while id := proposal(search):
        address = f"lakefs://{search.repository}/{id}"
        code = _code([word.replace("{}", address) for word in command], address)
        verdict = "good" if code == 0 else "skip" if code == _SKIP_CODE else "bad"
        invocation.output.note(f"{verdict}: {id[:12]} {plain(search.subject(id))}")
        answer(search, id, verdict)
        _write(search)
    return _next(invocation, search)


def _code(words: list[str], address: str) -> int:
    sys.stdout.flush()
    try:
        done = subprocess.run(
            words, env={**environment(), _VARIABLE: address}, stdin=subprocess.DEVNULL, check=False
        )
    except OSError as error:
        raise Invalid(f"the command cannot start: {words[0]}: {error.strerror}") from error
    if done.returncode < 0 or done.returncode >= _STOP_CODE:
        raise Stopped(f"the command ended with {done.returncode}; the search can go on later")
    return done.returncode


class Stopped(GravelerError):
    """The command of a search ended in a way that says nothing of the commit."""


@client("log", group=bisect, examples=("graveler bisect log",))
def log(invocation: Invocation) -> int:
    """List the answers of the search."""
    invocation.output.items(_COLUMNS, _read().answers)
    return DONE


@client("view", group=bisect, examples=("graveler bisect view",))
def view(invocation: Invocation) -> int:
    """List the commits that may still be the first bad one, newest first."""
    invocation.output.items(_CANDIDATE_COLUMNS, reversed(_read().candidates))
    return DONE


@client("reset", group=bisect, examples=("graveler bisect reset",))
def reset(invocation: Invocation) -> int:
    """End the search, and forget its answers."""
    _file().unlink(missing_ok=True)
    invocation.output.done("no search runs")
    return DONE


# ---- what it says --------------------------------------------------------------------------------


def _next(invocation: Invocation, search: Search) -> int:
    """Keep the search, and say what comes next."""
    _write(search)
    id, output = proposal(search), invocation.output
    last = search.candidates[-1]
    suspects = [str(each["id"]) for each in search.candidates]
    result = {
        "repository": search.repository,
        "next": id,
        "first_bad": last["id"] if len(suspects) == 1 else "",
        "candidates": len(suspects),
    }
    output.record({"graveler": result}, _lines(output, search, id))
    return DONE


def _lines(output: Output, search: Search, id: str) -> Iterable[str]:
    name, last = search.repository, search.candidates[-1]
    if id:
        number = len(search.candidates)
        tests = plural((number - 1).bit_length(), "test")
        yield f"{plural(number, 'candidate')}, about {tests} to go"
        yield f"test {name}/{output.id(id)} {plain(search.subject(id))}"
    elif len(search.candidates) == 1:
        yield f"the first bad commit is {name}/{output.id(last['id'])} {plain(last['message'])}"
    else:
        yield "only skipped commits are left; the first bad commit is one of"
        for each in reversed(search.candidates):
            yield f"  {output.id(each['id'])} {plain(each['message'])}"
