"""The file that `spark-submit`, EMR Serverless and Glue are given to run: it calls the package.

Glue hands over pairs of names and values among words of its own: there all words of a job stand in
one value, `--graveler "import --url https://… --target lake/main/in/ …"`.
"""

import shlex
import sys

from graveler.spark.job import main

GLUE = "--graveler"


def words(given: list[str]) -> list[str]:
    """The words of the job, of those that the program was called with."""
    if GLUE not in given:
        return given
    return shlex.split(" ".join(given[given.index(GLUE) + 1 :][:1]))


if __name__ == "__main__":
    sys.exit(main(words(sys.argv[1:])))
