"""The bill of materials: every package of every lock, with its version, hashes and licence."""

import json
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

from scripts import sbom
from scripts.sbom import ROOT, SHIPPED

LOCKS = sorted((ROOT / "requirements").glob("*.txt"))


def _pinned() -> dict[tuple[str, str], tuple[set[str], set[str]]]:
    """Hashes and locks by name and version, read line by line."""
    found: dict[tuple[str, str], tuple[set[str], set[str]]] = {}
    for lock in LOCKS:
        current = set[str]()
        for line in lock.read_text(encoding="utf-8").splitlines():
            words = line.split()
            if "==" in line and not line.startswith((" ", "#")):
                name, _, pinned = words[0].partition("==")
                current, locks = found.setdefault((name, pinned), (set(), set()))
                locks.add(lock.stem)
            elif line.startswith("    --hash=sha256:"):
                current.add(words[0].removeprefix("--hash=sha256:"))
    return found


@cache
def _packages() -> tuple[sbom.Package, ...]:
    return tuple(sbom.packages(LOCKS))


def _bill(known: Any = ()) -> dict[str, Any]:
    return dict(sbom.bill("1.2.3", _packages(), dict(known)))


def test_every_locked_package_stands_in_it() -> None:
    expected, components = _pinned(), _bill()["components"]
    assert len(expected) > 100 and len(components) == len(expected)
    for component in components:
        name, pinned = component["name"], component["version"]
        hashes, locks = expected[name, pinned]
        assert component["purl"] == component["bom-ref"] == f"pkg:pypi/{name}@{pinned}"
        assert {each["content"] for each in component["hashes"]} == hashes != set()
        assert {each["alg"] for each in component["hashes"]} == {"SHA-256"}
        assert {each["value"] for each in component["properties"]} == locks
        assert component["scope"] == ("required" if locks & SHIPPED else "excluded")


def test_a_package_that_is_installed_has_its_licence() -> None:
    """All of those that run in production."""
    known = sbom.licences(sorted(ROOT.glob(".venv*/lib/python*/site-packages")))
    licensed = {each["name"] for each in _bill(known)["components"] if "licenses" in each}
    shipped = {name for (name, pinned), (_, locks) in _pinned().items() if locks & SHIPPED
               and _is_here(name, pinned)}  # fmt: skip
    assert len(shipped) > 10 and shipped <= licensed


def _is_here(name: str, pinned: str) -> bool:
    try:
        return version(name) == pinned
    except PackageNotFoundError:
        return False


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ("License-Expression: MIT OR Apache-2.0", [{"expression": "MIT OR Apache-2.0"}]),
        (
            "Classifier: License :: OSI Approved\n"
            "Classifier: License :: OSI Approved :: MIT License\n"
            "Classifier: Topic :: Software\nLicense: something else",
            [{"license": {"name": "MIT License"}}],
        ),
        ("License: BSD", [{"license": {"name": "BSD"}}]),
        (f"License: {'Permission is granted ' * 9}", None),  # its text, not its name
        ("Summary: says nothing", None),
    ],
)
def test_what_a_package_says_of_its_licence(tmp_path: Path, stated: str, expected: Any) -> None:
    folder = tmp_path / "Some_Name-1.0.dist-info"
    folder.mkdir()
    head = "Metadata-Version: 2.4\nName: Some_Name\nVersion: 1.0\n"
    (folder / "METADATA").write_text(f"{head}{stated}\n\ntext\n", encoding="utf-8")
    known = sbom.licences([tmp_path])
    assert known == ({} if expected is None else {("some-name", "1.0"): expected})
    other = sbom.Package("some-name", "2.0", {"0" * 64}, {"server"})
    assert "licenses" not in sbom.bill("1", [other], known)["components"][0]


def test_the_same_locks_give_the_same_bytes() -> None:
    first = _bill()
    assert json.dumps(first) == json.dumps(_bill())
    later = dict(sbom.bill("1.2.4", _packages(), {}))
    assert first["serialNumber"].startswith("urn:uuid:")
    assert later["serialNumber"] != first["serialNumber"]
    assert (first["bomFormat"], first["specVersion"], first["version"]) == ("CycloneDX", "1.6", 1)
    assert first["metadata"]["component"]["version"] == "1.2.3"
