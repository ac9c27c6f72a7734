"""One small source for each rule that breaks it, to prove that the rule notices."""

from tests.architecture import budgets, imports
from tests.architecture.source import Rule

RULES: tuple[Rule, ...] = (
    imports.layering,
    imports.ownership,
    imports.banned,
    imports.quiet_import,
    imports.late_import,
    budgets.conftest_lines,
    budgets.function_lines,
    budgets.class_lines,
    budgets.class_methods,
    budgets.module_docstring,
    budgets.contract_docstring,
    budgets.empty_name,
    budgets.participle_name,
    budgets.participle_class,
    budgets.idle_name,
)

_LINES = "\n".join(["    pass"] * 60)
_METHODS = "\n".join(f"    def f{i}(self): ..." for i in range(10))

# (rule, path, source): each breaks exactly that rule.
CANARIES: tuple[tuple[Rule, str, str], ...] = (
    (imports.layering, "graveler/kv/memory.py", "from graveler.engine.commits import commit"),
    (imports.layering, "graveler/refs/names/tags.py", "import graveler.staging.area"),
    (imports.layering, "graveler/kv/memory.py", "def f():\n    from graveler.block import address"),
    (imports.layering, "graveler/api/app.py", "from graveler.testing import model"),
    (imports.layering, "graveler/ids.py", "from graveler import engine"),
    (imports.layering, "graveler/nowhere.py", "x = 1"),
    (imports.layering, "graveler/auth/users.py", "from graveler.api import app"),
    (imports.ownership, "graveler/engine/commits/commit.py", "import rocksdict"),
    (imports.ownership, "graveler/records.py", "from google.protobuf import message"),
    (imports.ownership, "graveler/api/app.py", "import boto3.session"),
    (imports.ownership, "graveler/api/app.py", "import requests"),
    (imports.banned, "graveler/engine/commits/commit.py", "import time"),
    (imports.banned, "graveler/kv/memory.py", "from uuid import uuid4"),
    (imports.banned, "graveler/cli/main.py", "import os\nx = os.environ"),
    (imports.banned, "graveler/cli/main.py", "from os import getenv"),
    (imports.banned, "graveler/api/app.py", "import datetime\nx = datetime.datetime.now"),
    (imports.banned, "graveler/refs/names/branches.py", "from threading import Lock"),
    (imports.banned, "graveler/engine/commits/commit.py", "from concurrent.futures import Future"),
    (imports.quiet_import, "graveler/limits.py", "print(1)"),
    (budgets.participle_name, "graveler/api/sending.py", "x = 1"),
    (budgets.participle_name, "graveler/refs/unreached.py", "x = 1"),
    (budgets.participle_name, "graveler/cli/told.py", "x = 1"),
    (budgets.participle_class, "graveler/jobs/orders.py", "class Asked(NamedTuple): ..."),
    (budgets.participle_class, "graveler/kv/database.py", "class _Opened: ..."),
    (budgets.idle_name, "graveler/kv/memory.py", "def f():\n    found = 1"),
    (budgets.idle_name, "graveler/kv/memory.py", "def f(said): ..."),
    (imports.quiet_import, "graveler/limits.py", "for i in range(3):\n    x = i"),
    (
        imports.late_import,
        "graveler/engine/commits/commit.py",
        "def f():\n    from graveler.engine import merge",
    ),
    (budgets.conftest_lines, "tests/conftest.py", "x = 1\n" * 201),
    (budgets.function_lines, "graveler/limits.py", f"def f():\n{_LINES}"),
    (
        budgets.function_lines,
        "graveler/limits.py",
        f"class A:\n  async def f(self):\n{_LINES}",
    ),
    (budgets.class_lines, "graveler/limits.py", "class A:\n" + "    x = 1\n" * 200),
    (
        budgets.class_methods,
        "graveler/limits.py",
        "class A:\n" + "\n".join(f"    def f{i}(self): ..." for i in range(13)),
    ),
    (
        budgets.class_methods,
        "graveler/api/ports.py",
        "class A(Protocol[T]):\n" + _METHODS.replace(": ...", ":\n        'doc'"),
    ),
    (budgets.module_docstring, "graveler/limits.py", "x = 1"),
    (
        budgets.contract_docstring,
        "graveler/kv/store.py",
        "class A(Protocol):\n    def f(self): ...",
    ),
    (budgets.contract_docstring, "graveler/engine/commits/commit.py", "def commit(): ..."),
    (budgets.empty_name, "graveler/kv/utils.py", "x = 1"),
    (budgets.empty_name, "graveler/kv/store.py", "class StoreManager: ..."),
)

# Breaks nothing, and comes near to each rule.
CLEAN: tuple[tuple[str, str], ...] = (
    ("graveler/engine/commits/commit.py", "from graveler.kv.store import Store\nimport datetime\n"),
    ("graveler/clock.py", "import os\nimport random\nimport time\nx = os.urandom\n"),
    ("graveler/committed/cache.py", "import threading\n"),
    ("graveler/variables.py", "import os\ndef f():\n    return os.environ\n"),
    ("graveler/identity.py", "import xxhash\nfrom graveler.records import Entry\n"),
    (
        "graveler/block/registry.py",
        "def f():\n  from graveler.block import memory\n  return memory\n",
    ),
    ("graveler/errors.py", "class Refused(GravelerError): ...\nclass StagedRow: ...\n"),
    ("graveler/refs/merge_base.py", "class MergeBase:\n    def f(self, a, b, c, d, e, g): ...\n"),
    ("graveler/testing/kv_suite.py", "import time\nfrom graveler.engine import ports\n"),
)
