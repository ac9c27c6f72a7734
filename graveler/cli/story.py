"""The story of the demo: versions a real data set with the unmodified `lakefs` package.

    main    ○─┬──────────────────────────────────┬─○  tag
    ingest    └─ load ── bad change ── its revert ┘

Each step prints one sentence and the time that it took.  For demo.py.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import lakefs
from lakefs.client import Client

from graveler.auth.credentials import NewCredential
from graveler.cli import sample
from graveler.cli.sample import REPOSITORY, SAMPLES, Sample
from graveler.clock import SystemClock, SystemIds

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
    # The client logs each retry.  If the service stops during the story, these logs are noise.
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
    narrator = Narrator(say, SystemClock())
    with narrator.step() as words:
        airports = sample.load()
        words.append(
            f"read the sample: {airports.rows:,} airports of {len(airports.countries)} countries"
        )
    client = Client(  # type: ignore[no-untyped-call]
        host=url,
        username=credential.access_key_id,
        password=credential.secret_access_key,
    )
    repository = _begin(narrator, client)
    ingest = repository.branch(INGEST)
    _load(narrator, ingest, airports)
    _spoil(narrator, repository, airports)
    _roll_back(narrator, repository)
    _publish(narrator, repository, airports)


def _begin(narrator: Narrator, client: Client) -> lakefs.Repository:
    with narrator.step() as words:
        namespace = f"{SAMPLES}{REPOSITORY}-{SystemIds().unique(8)}"
        repository = lakefs.Repository(REPOSITORY, client=client).create(
            storage_namespace=namespace, default_branch=MAIN, exist_ok=True
        )
        if any(branch.id == INGEST for branch in repository.branches()):
            repository.branch(INGEST).delete()
        repository.branch(INGEST).create(MAIN)
        words.append(f"created repository {REPOSITORY}, and branch {INGEST} from {MAIN}")
    return repository


def _load(narrator: Narrator, ingest: lakefs.Branch, airports: Sample) -> None:
    with narrator.step() as words:
        size = 0
        for country, rows in airports.countries.items():
            body = sample.file_of(rows)
            ingest.object(sample.path_of(country)).upload(data=body, content_type="text/csv")
            size += len(body)
        words.append(
            f"uploaded {len(airports.countries)} CSV files ({size / 1e6:.1f} MB) to {INGEST}; "
            f"readers of {MAIN} do not see them"
        )
    with narrator.step() as words:
        commit = ingest.commit(
            f"Load airports of {len(airports.countries)} countries",
            metadata={"source": "airportsdata", "version": airports.version},
        )
        words.append(f"committed them as {commit.id[:12]}")


def _spoil(narrator: Narrator, repository: lakefs.Repository, airports: Sample) -> None:
    ingest = repository.branch(INGEST)
    with narrator.step() as words:
        hit = [country for country in airports.countries if country.startswith(SPOILED_PREFIX)]
        for country in hit:
            body = sample.file_of(sample.spoiled(airports.countries[country]))
            ingest.object(sample.path_of(country)).upload(data=body, content_type="text/csv")
        bad = ingest.commit("Normalise coordinates")
        words.append(
            f"committed a bad change as {bad.id[:12]}: a job exchanged latitude and longitude "
            f"in {len(hit)} files"
        )
    with narrator.step() as words:
        changes = list(repository.ref(f"{INGEST}~1").diff(INGEST))
        assert {change.type for change in changes} == {"changed"}
        words.append(
            f"diff {INGEST}~1 {INGEST} shows {len(changes)} changed files: "
            f"{changes[0].path} … {changes[-1].path}"
        )


def _roll_back(narrator: Narrator, repository: lakefs.Repository) -> None:
    ingest = repository.branch(INGEST)
    with narrator.step() as words:
        undone = ingest.revert(INGEST)
        differences = list(repository.ref(f"{INGEST}~2").diff(INGEST))
        assert not differences, "the revert must restore the content of the first commit"
        words.append(
            f"reverted it as {undone.id[:12]}: the files are again those of the first commit"
        )


def _publish(narrator: Narrator, repository: lakefs.Repository, airports: Sample) -> None:
    with narrator.step() as words:
        merged = repository.branch(INGEST).merge_into(MAIN, message="Publish the airports")
        count = sum(1 for _ in repository.branch(MAIN).objects(prefix="airports/"))
        assert count == len(airports.countries)
        words.append(f"merged {INGEST} into {MAIN} as {merged[:12]}: {count} files appear at once")
    with narrator.step() as words:
        tag = repository.tag(f"airports-{airports.version}").create(MAIN)
        words.append(f"tagged it {tag.id}")
