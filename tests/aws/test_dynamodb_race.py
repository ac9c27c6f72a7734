"""Many processes, many threads, one row: no acknowledged write is lost."""

import subprocess
import sys

from graveler.kv.dynamodb import DynamoStore
from graveler.kv.store import ABSENT
from tests.aws import racing_writer
from tests.aws.engines import ROOT

PROCESSES, TIMES = 4, 2


def test_no_increment_of_four_processes_is_lost(engine: str, dynamo: DynamoStore) -> None:
    dynamo.set(*racing_writer.PLACE, b"0", b"start")
    dynamo.set(*racing_writer.GUARD, b"", racing_writer.GUARD_VERSION)
    program = [sys.executable, "-m", "tests.aws.racing_writer", engine, dynamo.table, f"{TIMES}"]
    runs = [
        subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for _ in range(PROCESSES)
    ]
    said = [run.communicate(timeout=300)[0].split() for run in runs]
    assert [run.returncode for run in runs] == [0] * PROCESSES
    written = sum(int(each[0]) for each in said)
    unknown = sum(int(each[1]) for each in said)
    assert written + unknown == PROCESSES * 4 * TIMES
    row = dynamo.get(*racing_writer.PLACE)
    assert row is not ABSENT
    assert written <= int(row.value) <= written + unknown
    assert written > unknown, "the engine hardly answered: nothing was tested"
