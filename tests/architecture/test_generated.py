"""The generated code is what the compiler makes of graveler/wire.proto, but for its format."""

import ast
import subprocess
import sys
from pathlib import Path

from tests.architecture.source import ROOT


def test_the_generated_module_belongs_to_the_schema(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "grpc_tools.protoc", "-Igraveler"]
    command += [f"--python_out={tmp_path}", "wire.proto"]
    subprocess.run(command, cwd=ROOT, check=True)
    fresh = ast.parse((tmp_path / "wire_pb2.py").read_text(encoding="utf-8"))
    kept = ast.parse((ROOT / "graveler" / "wire_pb2.py").read_text(encoding="utf-8"))
    assert ast.dump(fresh) == ast.dump(kept), "run `make proto` and commit what it writes"
