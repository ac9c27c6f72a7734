"""One small source for each rule that breaks it, to prove that the rule notices."""

from tests.architecture import imports
from tests.architecture.source import Rule

RULES: tuple[Rule, ...] = (
    imports.layering,
    imports.ownership,
    imports.banned,
    imports.quiet_import,
    imports.late_import,
)

# (rule, path, source): each breaks exactly that rule.
CANARIES: tuple[tuple[Rule, str, str], ...] = (
    (imports.layering, "graveler/kv/memory.py", "from graveler.engine.commits import commit"),
    (imports.layering, "graveler/refs/tags.py", "import graveler.staging.area"),
    (imports.layering, "graveler/kv/memory.py", "def f():\n    from graveler.block import address"),
    (imports.layering, "graveler/api/app.py", "from tests.support import model"),
    (imports.layering, "graveler/core/ids.py", "from graveler import engine"),
    (imports.layering, "graveler/nowhere.py", "x = 1"),
    (imports.layering, "graveler/auth/users.py", "from graveler.api import app"),
    (imports.ownership, "graveler/engine/commits/commit.py", "import rocksdict"),
    (imports.ownership, "graveler/core/records.py", "from google.protobuf import message"),
    (imports.ownership, "graveler/api/app.py", "import boto3.session"),
    (imports.ownership, "graveler/api/app.py", "import requests"),
    (imports.banned, "graveler/engine/commits/commit.py", "import time"),
    (imports.banned, "graveler/kv/memory.py", "from uuid import uuid4"),
    (imports.banned, "graveler/cli/main.py", "import os\nx = os.environ"),
    (imports.banned, "graveler/cli/main.py", "from os import getenv"),
    (imports.banned, "graveler/api/app.py", "import datetime\nx = datetime.datetime.now"),
    (imports.banned, "graveler/refs/branches.py", "from threading import Lock"),
    (imports.banned, "graveler/engine/commits/commit.py", "from concurrent.futures import Future"),
    (imports.quiet_import, "graveler/core/limits.py", "print(1)"),
    (imports.quiet_import, "graveler/core/limits.py", "for i in range(3):\n    x = i"),
    (
        imports.late_import,
        "graveler/engine/commits/commit.py",
        "def f():\n    from graveler.engine import merge",
    ),
)

# Breaks nothing, and comes near to each rule.
CLEAN: tuple[tuple[str, str], ...] = (
    ("graveler/engine/commits/commit.py", "from graveler.kv.store import Store\nimport datetime\n"),
    ("graveler/core/clock.py", "import os\nimport random\nimport time\nx = os.urandom\n"),
    ("graveler/committed/cache.py", "import threading\n"),
    ("graveler/core/settings.py", "import os\ndef f():\n    return os.environ\n"),
    ("graveler/core/identity.py", "import xxhash\nfrom graveler.core.records import Entry\n"),
    (
        "graveler/block/registry.py",
        "def f():\n  from graveler.block import memory\n  return memory\n",
    ),
    ("graveler/core/errors.py", "class Refused(GravelerError): ...\nclass StagedRow: ...\n"),
    ("graveler/refs/merge_base.py", "class MergeBase:\n    def f(self, a, b, c, d, e, g): ...\n"),
)
