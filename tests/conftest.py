"""The tests of `graveler.spark` run in environments of their own (`make test-spark`), one for each
version of PySpark; where there is none, they are left out."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("pyspark") else ["spark"]
