"""What each Python process of the tests runs first: it takes archives off its path.

Before each task a Python worker of Spark drops what it knows of its path; of each archive there
(Spark puts three of its own first) Python then reads the whole directory anew, which took most of
the tests' time.  The packages of the environment are the same ones, unpacked.
"""

import sys

sys.path[:] = [entry for entry in sys.path if not entry.endswith((".zip", ".jar"))]
sys.path_importer_cache.clear()
