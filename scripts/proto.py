"""Generates the protobuf modules of the wire format; `make proto` runs it.

    python scripts/proto.py FOLDER      wire_pb2.py and wire_pb2.pyi, from graveler/core/wire.proto

The compiler adds a check to the module that refuses every runtime older than the compiler.  The
module needs only a serialized descriptor and calls that exist in all runtimes since 4.25, so this
script removes the check.  A cluster or a notebook with an older protobuf can then import graveler.
Tests compare the written bytes with recorded ones.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_IMPORT = re.compile(r"^from google\.protobuf import runtime_version as _runtime_version\n", re.M)
_CHECK = re.compile(r"^_runtime_version\.ValidateProtobufRuntimeVersion\(\n.*?^\)\n", re.M | re.S)


def write(folder: Path) -> None:
    """Compile the schema into `folder`.

    Raises `SystemExit` if the output of the compiler has another form than expected, so that the
    script removes nothing else by mistake.
    """
    command = [sys.executable, "-P", "-m", "grpc_tools.protoc", "-Igraveler/core"]
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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    write(parser.parse_args().folder)
