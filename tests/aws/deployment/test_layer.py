"""The layer: small, for the right machine, with all its bytecode; the functions' code as well."""

import importlib.util
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

import pytest

from graveler.core.records import ABSENT, Absent
from scripts.deploy import OURS, ROOT

pytestmark = pytest.mark.xdist_group("stack")

UNZIPPED_BYTES_MAX = 75_000_000
ZIPPED_BYTES_MAX = 25_000_000
FUNCTIONS = ("ApiFunction", "EventsFunction", "WorkerFunction", "JanitorFunction")
SENDING = "HooksFunction"
_WORD: Final = re.compile(r"[\w.]+")
_IMPORT: Final = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<base>[.\w]+)[ \t]+import[ \t]+(?P<names>\([^)]*\)|[^\n]*)"
    r"|import[ \t]+(?P<modules>[^\n]*))",
    re.MULTILINE,
)
LIBRARIES = {"_cffi_backend"}  # another library loads it: that of cryptography
MACHINES = {"x86_64": 62, "arm64": 183}  # of the ELF header


@pytest.fixture(scope="module", params=sorted(MACHINES))
def architecture(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def layer(architecture: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("layer")
    command = [sys.executable, str(ROOT / "layers" / "build.py"), "--runtime", OURS]
    subprocess.run([*command, "--architecture", architecture, "layer", str(folder)], check=True)
    return folder


def test_an_interpreter_of_another_version_is_refused(tmp_path: Path) -> None:
    """Its remedy proposes no runtime: the template may not allow that of this interpreter."""
    command = [sys.executable, str(ROOT / "layers" / "build.py"), "--runtime", "python3.99"]
    command += ["--architecture", "arm64", "layer", str(tmp_path)]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 1 and OURS in refused.stderr
    assert "LAYER_PYTHON=" in refused.stderr and "RUNTIME=" not in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_it_keeps_within_its_bounds(layer: Path, tmp_path: Path) -> None:
    files = [each for each in layer.rglob("*") if each.is_file()]
    unzipped = sum(each.stat().st_size for each in files)
    with zipfile.ZipFile(tmp_path / "layer.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for each in files:
            archive.write(each, each.relative_to(layer))
    zipped = (tmp_path / "layer.zip").stat().st_size
    print(f"layer: unzipped={unzipped} zipped={zipped}")
    assert unzipped < UNZIPPED_BYTES_MAX
    assert zipped < ZIPPED_BYTES_MAX


def test_all_of_it_is_for_one_machine(layer: Path, architecture: str) -> None:
    libraries = list(layer.rglob("*.so*"))
    assert len(libraries) >= 5
    machines = {int.from_bytes(each.read_bytes()[18:20], "little") for each in libraries}
    assert machines == {MACHINES[architecture]}


def test_its_libraries_find_the_libc_of_every_runtime(layer: Path) -> None:
    """3.12 and later run on Amazon Linux 2023; 3.11 runs on Amazon Linux 2, whose libc is 2.26."""
    needed = {
        (int(major), int(minor))
        for library in layer.rglob("*.so*")
        for major, minor in re.findall(rb"GLIBC_(\d+)\.(\d+)", library.read_bytes())
    }
    assert (2, 26) < max(needed) <= (2, 34)


def test_every_module_has_bytecode_that_is_never_checked(layer: Path) -> None:
    assert_compiled(layer)


def test_the_functions_have_bytecode_and_only_what_they_use(built: Path) -> None:
    for name in (*FUNCTIONS, SENDING):
        folder = built.parent / name
        assert (folder / "handler.py").exists()
        assert not (folder / "graveler" / "testing").exists()
        assert_compiled(folder)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_handlers_find_all_they_import_in_the_layer(name: str, built: Path) -> None:
    """With nothing else on the path: this machine's packages are not there on AWS."""
    code = (
        f"import sys; sys.path[:0] = [{str(built.parent / name)!r}, "
        f"{str(built.parent / 'Dependencies' / 'python')!r}]\n"
        "import handler"
    )
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False
    )
    assert "environment is incomplete" in ran.stderr, ran.stderr


def test_the_function_of_hooks_needs_no_package(built: Path) -> None:
    """It has no layer: fewer bytes to start, and fewer to trust where requests leave."""
    code = f"import sys; sys.path[:0] = [{str(built.parent / SENDING)!r}]\nimport handler\n"
    code += "print(handler.handle({}, None))"
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False
    )
    assert "refused" in ran.stdout, ran.stderr


def test_it_has_no_package_that_no_function_imports(built: Path) -> None:
    """Neither a handler, nor what it imports anywhere, also within a function."""
    layer = built.parent / "Dependencies" / "python"
    handlers = [built.parent / name / "handler.py" for name in FUNCTIONS]
    found = imported(handlers, [built.parent / FUNCTIONS[0], layer])
    has = {
        each.name.partition(".")[0]
        for each in layer.iterdir()
        if each.suffix in ("", ".py", ".so") and each.name != "__pycache__"
    }
    assert len(has) > 10 and has - {name.partition(".")[0] for name in found} == LIBRARIES
    code = built.parent / FUNCTIONS[0] / "graveler"
    packages = {f"graveler.{each.name}" for each in code.iterdir() if each.is_dir()}
    assert packages - found == {"graveler.__pycache__"}


def imported(sources: Sequence[Path], folders: Sequence[Path]) -> set[str]:
    """The modules in `folders` that these files import, directly or not."""
    found, seen = set[str](), set[str]()
    waiting = [name for source in sources for name in _names(source, "")]
    while waiting:
        name = waiting.pop()
        file = ABSENT if name in seen else _file(name, folders)
        seen.add(name)
        if file is ABSENT:
            continue
        found.add(name)
        waiting.append(name.rpartition(".")[0])
        if file.suffix == ".py":
            waiting += _names(file, name if file.stem == "__init__" else name.rpartition(".")[0])
    return found


def _file(name: str, folders: Sequence[Path]) -> Path | Literal[Absent.ABSENT]:
    """The source or the library of a module, or the folder of a package without source."""
    for folder in folders:
        place = folder / name.replace(".", "/")
        libraries = sorted(place.parent.glob(f"{place.name}.*so")) if name else []
        for each in (place / "__init__.py", Path(f"{place}.py"), *libraries, place):
            if name and each.exists():
                return each
    return ABSENT


def _names(source: Path, package: str) -> Iterator[str]:
    """What a file imports, and what may be a module of that."""
    for match in _IMPORT.finditer(source.read_text(encoding="utf-8")):
        base, names, modules = match["base"], match["names"], match["modules"]
        yield from _WORD.findall(modules or "")
        if base:
            whole = importlib.util.resolve_name(base, package) if base[0] == "." else base
            yield from (whole, *(f"{whole}.{word}" for word in _WORD.findall(names)))


def assert_compiled(folder: Path) -> None:
    sources = list(folder.rglob("*.py"))
    assert sources
    for source in sources:
        compiled = Path(importlib.util.cache_from_source(str(source)))
        flags = int.from_bytes(compiled.read_bytes()[4:8], "little")
        assert flags == 0b01, f"not an unchecked hash: {source}"
