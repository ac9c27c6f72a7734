"""Who may import what: layers, owners of dependencies, banned names, import effects."""

import ast
import sys
from collections.abc import Iterator

from tests.architecture.source import PRODUCT, Module, Violation, imports, within

# Imports point to a smaller number or stay in the folder. Layers are the tens; within
# layer 4 the units say who may see whom (the commands start the service, never the
# other way round). Components with equal numbers never see one another, but the modules of
# layer 0, which share a folder: the package's.
LAYERS = {
    "core": 0,
    **dict.fromkeys(("kv", "block"), 10),
    **dict.fromkeys(("committed", "staging", "refs"), 20),
    "engine": 30,
    "auth": 42,
    **dict.fromkeys(("assembly", "audit", "events", "hooks"), 43),
    "jobs": 44,
    "http": 45,
    "ui": 46,
    "api": 47,
    "gateway": 48,
    "app": 49,
    "lake": 50,
    **dict.fromkeys(("aio", "arrow", "cli", "functions"), 51),
    **dict.fromkeys(("__main__", "spark"), 52),
}
LAYER_STATE, LAYER_VERBS, LAYER_DELIVERY = 20, 30, 40


# Third-party packages and the only places that may import them.
OWNERS: dict[str, tuple[str, ...]] = {
    "airportsdata": ("graveler/cli",),
    "aws_lambda_powertools": ("functions",),
    "bootstrap": ("functions",),  # likewise of functions/shared
    "boto3": ("graveler/block/s3.py", "graveler/core/aws.py"),
    "botocore": ("graveler/block/s3.py", "graveler/core/aws.py"),
    "click": ("graveler/cli",),
    "cramjam": ("graveler/committed",),
    "cryptography": ("graveler/auth", "graveler/http/server.py"),
    "fastapi": ("graveler/api",),
    "fsspec": ("graveler/lake/filesystem.py",),
    "gateway": ("functions",),  # of functions/shared: what is deployed has no packages of ours
    "google.protobuf": ("graveler/core/wire.py",),
    "google_crc32c": (
        "graveler/committed",
        "graveler/gateway/checksums.py",
        "graveler/block/journal.py",
        "graveler/core/identity.py",
    ),
    "jwt": ("graveler/auth",),
    "mangum": ("functions",),
    "msgspec": ("graveler/api", "graveler/http"),
    "numpy": ("graveler/arrow", "graveler/spark"),
    "pyarrow": (
        "graveler/arrow",
        "graveler/spark",
        "graveler/cli/support/rows.py",
        "graveler/lake/dataset.py",
        "graveler/lake/delta.py",
        "graveler/lake/folders.py",
    ),
    "pynamodb": ("graveler/kv/dynamodb.py",),
    "pyspark_graveler": ("graveler/spark/datasource.py",),  # ours, named as Spark looks for it
    "pyspark": ("graveler/spark",),
    "quiet_start": ("functions",),  # of functions/shared
    "rich": ("graveler/cli/support/progress.py",),
    "rocksdict": (
        "graveler/kv/database.py",
        "graveler/kv/handle.py",
        "graveler/committed/sstable.py",
    ),
    "starlette": ("graveler/api",),
    "snapshot_restore_py": ("functions",),
    "urllib3": ("graveler/block/ranged_get.py",),
    "httptools": ("graveler/http/protocol.py",),
    "uvicorn": ("graveler/http/protocol.py", "graveler/http/server.py"),
    "uvloop": ("graveler/http/server.py",),
    "yaml": ("graveler/hooks/yaml_text.py",),
    "xxhash": ("graveler/core/identity.py", "graveler/gateway/checksums.py"),
}

_TIME_AND_CHANCE = "take a Clock or Ids as an argument: graveler/core/clock.py owns time and chance"
_ENVIRONMENT = "take the setting as an argument: graveler/core/settings.py owns the environment"
_THREADS = "fan out through ports.fanout: state and verbs start no threads and hold no locks"

BANNED_MODULES = {name: _TIME_AND_CHANCE for name in ("random", "secrets", "time", "uuid")}
BANNED_NAMES = {
    "os.urandom": _TIME_AND_CHANCE,
    "datetime.now": _TIME_AND_CHANCE,
    "datetime.utcnow": _TIME_AND_CHANCE,
    "datetime.today": _TIME_AND_CHANCE,
    "date.today": _TIME_AND_CHANCE,
    "os.environ": _ENVIRONMENT,
    "os.getenv": _ENVIRONMENT,
    "os.putenv": _ENVIRONMENT,
}
BANNED_IN_STATE_AND_VERBS = {
    name: _THREADS
    for name in ("asyncio", "concurrent.futures", "multiprocessing", "subprocess", "threading")
}
# Who owns what is banned elsewhere. The caches of a process are shared by its threads: they
# hold a lock for their own tables, never across a call to a port.
ALLOWED: dict[str, tuple[str, ...]] = {
    _TIME_AND_CHANCE: ("graveler/core/clock.py",),
    _ENVIRONMENT: ("graveler/core/settings.py",),
    _THREADS: ("graveler/committed/cache.py",),
}


def layering(module: Module) -> Iterator[Violation]:
    """Imports point down or stay in the folder; the tests are seen by nobody."""
    own = module.component
    if own == "":
        return
    if own not in LAYERS:
        yield Violation(
            "layering", module.path, 1, own, 1, "give the new component a layer in LAYERS"
        )
        return
    for found in imports(module):
        parts = found.target.split(".")
        if parts[0] in ("tests", "simulator", "benchmarks"):
            remedy = "the product imports no tests: move what both need into a layer"
            yield Violation("layering", module.path, found.line, parts[0], 1, remedy)
        if parts[0] != PRODUCT or len(parts) < 2 or parts[1] == own:
            continue
        seen = parts[1]
        if seen == "__version__" or (LAYERS.get(seen) == 0 and LAYERS[own] == 0):
            continue
        if seen not in LAYERS:
            remedy = f"give the component {seen} a layer in LAYERS"
        elif LAYERS[seen] >= LAYERS[own]:
            remedy = "imports point down or stay in the folder: pass it in, or move it down"
        else:
            continue
        yield Violation("layering", module.path, found.line, seen, 1, remedy)


def ownership(module: Module) -> Iterator[Violation]:
    """Each third-party package is imported by its owner alone."""
    for found in imports(module):
        top = found.target.split(".")[0]
        if top in sys.stdlib_module_names or top == PRODUCT:
            continue
        owned = [name for name in OWNERS if within(found.target, name)]
        if not owned:
            remedy = "give the dependency an owner in OWNERS and a line in pyproject.toml"
        elif not any(within(module.path, owner) for owner in OWNERS[owned[0]]):
            remedy = f"only {' and '.join(OWNERS[owned[0]])} may import it: go through the owner"
        else:
            continue
        yield Violation("ownership", module.path, found.line, top, 1, remedy)


def banned(module: Module) -> Iterator[Violation]:
    """Time, chance and the environment enter by one door each; state and verbs have no threads."""
    names = dict(BANNED_MODULES)
    if LAYER_STATE <= LAYERS.get(module.component, 0) < LAYER_DELIVERY:
        names |= BANNED_IN_STATE_AND_VERBS
    found = [(item.target, item.line, names | BANNED_NAMES) for item in imports(module)]
    found += [(dotted, line, BANNED_NAMES) for dotted, line in _attributes(module.tree)]
    for target, line, rules in found:
        for name, remedy in rules.items():
            if within(target, name) and module.path not in ALLOWED[remedy]:
                yield Violation("banned", module.path, line, name, 1, remedy)


def _attributes(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Each `a.b` in the source, and `b.c` of `a.b.c`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            left = node.value
            if isinstance(left, ast.Name):
                yield f"{left.id}.{node.attr}", node.lineno
            elif isinstance(left, ast.Attribute):
                yield f"{left.attr}.{node.attr}", node.lineno


def quiet_import(module: Module) -> Iterator[Violation]:
    """Nothing happens at import: no bare call, loop, with or try at the top of a module."""
    for node in module.tree.body:
        call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        if call or isinstance(node, ast.For | ast.While | ast.With | ast.Try):
            remedy = "nothing happens at import: move it into a function that somebody calls"
            yield Violation("quiet_import", module.path, node.lineno, "", 1, remedy)


def late_import(module: Module) -> Iterator[Violation]:
    """Below layer 4 only a registry imports the product inside a function."""
    lower = LAYERS.get(module.component, LAYER_DELIVERY) < LAYER_DELIVERY
    if not lower or module.path.endswith("/registry.py"):
        return
    for found in imports(module):
        if found.late and within(found.target, PRODUCT):
            remedy = "import at the top; if that makes a cycle, the module has two subjects"
            yield Violation("late_import", module.path, found.line, found.target, 1, remedy)
