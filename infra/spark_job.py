"""The program that `spark-submit`, EMR Serverless and Glue run: it calls the package.

Glue passes its arguments as pairs of names and values, mixed with its own.  There, all arguments of
a job stand in one value: `--graveler "import --url https://… --target lake/main/in/ …"`.
"""

import shlex
import sys

from graveler.spark.job import main

GLUE = "--graveler"


def words(arguments: list[str]) -> list[str]:
    """The arguments of the job, taken from those of the program."""
    if GLUE not in arguments:
        return arguments
    return shlex.split(" ".join(arguments[arguments.index(GLUE) + 1 :][:1]))


if __name__ == "__main__":
    sys.exit(main(words(sys.argv[1:])))
