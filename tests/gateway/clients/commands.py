"""Files of this machine for the tests of commands, and what they find again."""

from pathlib import Path

from tests.gateway.lake import Lake

PARTS = bytes(range(256)) * (5 * 4096 + 1)  # two parts of 5 MiB at most
FILES = {"a b+": b"0123456789", "empty": b"", "x/ü&%": b"2", "x/large": PARTS}


def written(folder: Path, files: dict[str, bytes] = FILES) -> Path:
    """A folder that has these files."""
    for name, body in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    return folder


def found(folder: Path) -> dict[str, bytes]:
    """The files below a folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def not_served(there: Lake, file: Path) -> tuple[tuple[tuple[str | Path, ...], str], ...]:
    """Calls of `cp`, `mb` and `rb`, as several programs name them, that are refused, and the codes
    that they are told."""
    return (
        (("cp", file, f"s3://{there.repo}/v1/kept/a"), "MethodNotAllowed"),
        (("cp", file, f"s3://{there.repo}/none/a"), "NoSuchBucket"),
        (("mb", "s3://none-of-these"), "NotImplemented"),
        (("rb", f"s3://{there.repo}"), "MethodNotAllowed"),
    )
