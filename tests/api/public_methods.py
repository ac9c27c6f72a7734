"""Which public functions and methods of a client's package run: for tests that must call them all.

The methods come from the package itself, so a release that brings a new one fails those tests.
What is called is what Python runs: a profile of this thread names each function.
"""

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any


def public(package: ModuleType) -> dict[str, CodeType]:
    """The code of each public function and method of the package, by its name."""
    found: dict[str, CodeType] = {}
    for each in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        module = importlib.import_module(each.name)
        for name, value in vars(module).items():
            if getattr(value, "__module__", "") != module.__name__:
                continue
            if inspect.isfunction(value) and not name.startswith("_"):
                found[name] = inspect.unwrap(value).__code__
            elif inspect.isclass(value):
                found |= _of_class(value)
    return found


def _of_class(owner: type) -> dict[str, CodeType]:
    found: dict[str, CodeType] = {}
    for name, value in vars(owner).items():
        functions: dict[str, Any] = {"": getattr(value, "__func__", value)}
        if isinstance(value, property):
            functions = {"": value.fget, " = …": value.fset}
        for suffix, function in functions.items():
            if name.startswith("_") or not isinstance(function, FunctionType):
                continue
            if not getattr(function, "__isabstractmethod__", False):
                found[f"{owner.__name__}.{name}{suffix}"] = inspect.unwrap(function).__code__
    return found


@contextmanager
def profiled() -> Iterator[set[CodeType]]:
    """The code that this thread runs."""
    seen: set[CodeType] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            seen.add(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield seen
    finally:
        sys.setprofile(before)
