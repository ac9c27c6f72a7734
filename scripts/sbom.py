"""Writes a bill of materials: every package of the locks, as CycloneDX 1.6 in JSON.

    requirements/*.txt ──► name, version, hashes, the locks that name it ──┐
    environments ──────► licences of what is installed in that version ──┼──► build/sbom/….cdx.json
    ui/package-lock.json ──► all of these, of the packages of the page ──┘

The text depends on its input alone: the same locks and environments give the same bytes.  Uses no
network.  Started by `make sbom`.
"""

import argparse
import base64
import json
import re
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any, Final

from graveler import __version__

ROOT: Final = Path(__file__).resolve().parent.parent
TARGET: Final = ROOT / "build" / "sbom" / "graveler.cdx.json"
# What runs in production; the other locks are of tests, tools and the site.
SHIPPED: Final = frozenset({"aws", "gateway", "layer", "server"})
_PIN: Final = re.compile(
    r"^([a-z0-9-]+)==([^ ;]+)[^\n]*\\\n((?:    --hash=sha256:\S+[^\n]*\n)+)", re.MULTILINE
)
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_NAMES_LENGTH_MAX: Final = 100  # a longer field is the text of the licence, not its name
_OSI: Final = "OSI Approved"


@dataclass(frozen=True)
class Package:
    """One version of a package; `locks`: the names of the locks that pin it."""

    name: str
    version: str
    hashes: set[str] = field(default_factory=set)
    locks: set[str] = field(default_factory=set)


def packages(locks: Iterable[Path]) -> Sequence[Package]:
    """Every package that locks pin, by name and version."""
    pinned: dict[tuple[str, str], Package] = {}
    for lock in locks:
        for name, version, hashes in _PIN.findall(lock.read_text(encoding="utf-8")):
            package = pinned.setdefault((name, version), Package(name, version))
            package.hashes.update(_HASH.findall(hashes))
            package.locks.add(lock.stem)
    return [pinned[key] for key in sorted(pinned)]


def licences(environments: Iterable[Path]) -> Mapping[tuple[str, str], Any]:
    """What the packages of environments say of their licences, by name and version."""
    known: dict[tuple[str, str], Any] = {}
    for environment in environments:
        for installed in distributions(path=[str(environment)]):
            name = re.sub(r"[-_.]+", "-", installed.metadata["Name"]).lower()
            if licence := _licence(installed):
                known.setdefault((name, installed.version), licence)
    return known


def _licence(installed: Distribution) -> list[Mapping[str, Any]]:
    """The licences of a package in the form of CycloneDX; empty if it names none."""
    metadata = installed.metadata
    if expression := metadata.get("License-Expression"):
        return [{"expression": expression}]
    names = list(_classified(metadata.get_all("Classifier") or []))
    stated = (metadata.get("License") or "").strip()
    if not names and stated and len(stated) <= _NAMES_LENGTH_MAX and "\n" not in stated:
        names = [stated]
    return [{"license": {"name": name}} for name in names]


def _classified(classifiers: Iterable[str]) -> Iterator[str]:
    for classifier in classifiers:
        kind, *rest = classifier.split(" :: ")
        if kind == "License" and rest != [_OSI]:
            yield rest[-1]


def of_page(lock: Path) -> Sequence[Mapping[str, Any]]:
    """The components that a lock of npm pins."""
    packages = json.loads(lock.read_text(encoding="utf-8"))["packages"]
    return [_of_npm(place, packages[place]) for place in sorted(packages) if place]


def _of_npm(place: str, package: Mapping[str, Any]) -> Mapping[str, Any]:
    name = place.rpartition("node_modules/")[2]
    purl = f"pkg:npm/{name.replace('@', '%40')}@{package['version']}"
    digest = base64.b64decode(package["integrity"].removeprefix("sha512-"))
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": package["version"],
        "purl": purl,
        "scope": "excluded" if package.get("dev") else "required",
        "hashes": [{"alg": "SHA-512", "content": digest.hex()}],
        "properties": [{"name": "graveler:lock", "value": "ui"}],
        "licenses": [{"expression": package["license"]}],
    }


def bill(
    version: str,
    pinned: Iterable[Package],
    known: Mapping[tuple[str, str], Any],
    page: Iterable[Mapping[str, Any]] = (),
) -> Mapping[str, Any]:
    """The bill of materials; `page`: the components of the page."""
    components = [*(_component(package, known) for package in pinned), *page]
    content = json.dumps([version, components])
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, content)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "graveler",
                "name": "graveler",
                "version": version,
            }
        },
        "components": components,
    }


def _component(package: Package, known: Mapping[tuple[str, str], Any]) -> Mapping[str, Any]:
    purl = f"pkg:pypi/{package.name}@{package.version}"
    component = {
        "type": "library",
        "bom-ref": purl,
        "name": package.name,
        "version": package.version,
        "purl": purl,
        "scope": "required" if package.locks & SHIPPED else "excluded",
        "hashes": [{"alg": "SHA-256", "content": digest} for digest in sorted(package.hashes)],
        "properties": [{"name": "graveler:lock", "value": lock} for lock in sorted(package.locks)],
    }
    licence = known.get((package.name, package.version))
    return {**component, "licenses": licence} if licence else component


def main() -> int:
    """Write the bill, and say where it is."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    pinned = packages(sorted((ROOT / "requirements").glob("*.txt")))
    known = licences(sorted(ROOT.glob(".venv*/lib/python*/site-packages")))
    made = bill(__version__, pinned, known, of_page(ROOT / "ui" / "package-lock.json"))
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    licensed = sum("licenses" in component for component in made["components"])
    sys.stdout.write(
        f"wrote {TARGET.relative_to(ROOT)}: {len(made['components'])} packages, "
        f"{licensed} with licences\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
