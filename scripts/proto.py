"""Writes the generated modules of a schema: what `make proto` runs.

    python scripts/proto.py FOLDER      wire_pb2.py and wire_pb2.pyi, from graveler/wire.proto

The compiler puts a check into the module that refuses every runtime older than itself.  The module
holds a serialized descriptor and calls that runtimes since 4.25 have, so the check is left out: a
cluster or a notebook that has an older protobuf can import graveler.  Tests compare the bytes that
are written with recorded ones.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_IMPORT = re.compile(r"^from google\.protobuf import runtime_version as _runtime_version\n", re.M)
_CHECK = re.compile(r"^_runtime_version\.ValidateProtobufRuntimeVersion\(\n.*?^\)\n", re.M | re.S)


def write(folder: Path) -> None:
    """Compile the schema into `folder`.  Raises `SystemExit` if the compiler's output has changed
    its form, so that nothing is left out by mistake."""
    command = [sys.executable, "-m", "grpc_tools.protoc", "-Igraveler"]
    command += [f"--python_out={folder}", f"--pyi_out={folder}", "wire.proto"]
    subprocess.run(command, cwd=ROOT, check=True)
    module = folder / "wire_pb2.py"
    text = module.read_text(encoding="utf-8")
    for pattern in (_IMPORT, _CHECK):
        text, count = pattern.subn("", text)
        if count != 1:
            raise SystemExit(f"make proto: not found once in {module.name}: {pattern.pattern}")
    module.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] in ("-h", "--help"):
        raise SystemExit(__doc__)
    write(Path(sys.argv[1]))
