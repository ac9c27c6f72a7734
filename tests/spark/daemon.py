"""The process that Spark forks its Python workers from, without archives on the path.

Before each task a worker drops what it knows of its path; of each archive there (Spark puts two of
its own first) Python then reads the whole directory anew, which took most of the tests' time.  The
packages of this environment are the same ones, unpacked.
"""

import sys

if __name__ == "__main__":
    sys.path[:] = [entry for entry in sys.path if not entry.endswith((".zip", ".jar"))]
    sys.path_importer_cache.clear()
    from pyspark.daemon import manager

    manager()
