"""The generated code is what the compiler makes of graveler/core/wire.proto, but for its format."""

import ast
import subprocess
import sys
from pathlib import Path

from tests.architecture.source import ROOT


def test_the_generated_module_belongs_to_the_schema(tmp_path: Path) -> None:
    command = [sys.executable, "scripts/proto.py", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True)
    fresh = ast.parse((tmp_path / "wire_pb2.py").read_text(encoding="utf-8"))
    kept = ast.parse((ROOT / "graveler" / "core" / "wire_pb2.py").read_text(encoding="utf-8"))
    assert ast.dump(fresh) == ast.dump(kept), "run `make proto` and commit what it writes"


def test_the_generated_module_asks_for_no_version_of_the_runtime() -> None:
    """The compiler's own check would refuse every runtime older than the compiler."""
    text = (ROOT / "graveler" / "core" / "wire_pb2.py").read_text(encoding="utf-8")
    assert "runtime_version" not in text and "AddSerializedFile" in text
