"""`make bench-cold`: the cold start of the API function beside that of an empty application.

    cold start = CPU time of a fresh process from its first import to the end of its first request

The two applications run alternately.  Graveler uses the layer and the code as deployed, including
the bytecode, and nothing else on the path.  It answers an authenticated stat of one object, and
sends its own requests over TLS to a stand-in on this machine.  The empty application is FastAPI
with one route behind Mangum, from the packages of this environment.  The last line of the output is
JSON.
"""

import argparse
import base64
import json
import os
import platform
import statistics
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.cold_service import ASKED, BUCKET, Service, World
from scripts.deploy import OURS, ROOT, Target

RATIO_MAX = 1.8
RUNS = 15

EMPTY = """
import sys, time; sys.path[:0] = sys.argv[1:3]; begun = time.process_time()
from fastapi import FastAPI
from mangum import Mangum
app = FastAPI()
@app.get("/api/v1/{path:path}")
def root(path: str):
    return {"path": path}
handler = Mangum(app, lifespan="off")
"""
OWN = """
import sys, time; sys.path[:0] = sys.argv[1:3]; begun = time.process_time()
from handler import handle as handler
"""
CALL = """
import json
class Context:
    function_name = invoked_function_arn = aws_request_id = "f"
    memory_limit_in_mb = 1024
    get_remaining_time_in_millis = staticmethod(lambda: 29000)
imported = time.process_time()
event = json.loads(sys.argv[3])
answer = handler(event, Context()); first = time.process_time()
assert answer["statusCode"] == 200, answer
handler(event, Context()); second = time.process_time()
print(json.dumps([first - begun, imported - begun, first - imported, second - first]))
"""


def main() -> int:
    """Measure and report.  Returns 1 if the goal is missed."""
    parser = argparse.ArgumentParser(description="measures cold starts")
    parser.add_argument("--runs", type=int, default=RUNS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="graveler-cold-") as name:
        found = measure(Path(name), given.runs, *_built(Path(name)))
    print(report(found))
    print(json.dumps({"ratio": round(found["ratio"], 2), "goal": RATIO_MAX}))
    return int(found["ratio"] > RATIO_MAX)


def measure(folder: Path, runs: int, code: Path, layer: Path) -> dict[str, Any]:
    """All figures of the function in `code`; `folder` is for files of the measurement.  Times are
    milliseconds of CPU."""
    load = os.getloadavg()[0]
    (folder / "scratch").mkdir()
    world = World(folder / "scratch")
    service = Service(world, folder)
    try:
        environment = {
            "PATH": os.environ["PATH"],
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": service.url,
            "AWS_CA_BUNDLE": str(service.certificate),
            "SSL_CERT_FILE": str(service.certificate),
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024",
            "GRAVELER_TABLE": "lake",
            "GRAVELER_SECRET": "lake",
            "GRAVELER_BUCKETS": BUCKET,
            "GRAVELER_JOBS_QUEUE": f"{service.url}/jobs",
            "POWERTOOLS_SERVICE_NAME": "lake",
            "POWERTOOLS_METRICS_NAMESPACE": "Graveler",
        }
        event = json.dumps(_event(world))
        arguments = [str(code), str(layer), event]
        plain = [_packages(), _packages(), event]
        empty, own = [], []
        service.counts.clear()
        for _ in range(runs):
            empty.append(_run(EMPTY + CALL, plain, environment))
            own.append(_run(OWN + CALL, arguments, environment))
        asked = {name: count / runs for name, count in service.counts.items()}
    finally:
        service.close()
    medians = {
        name: [statistics.median(each) * 1000 for each in zip(*found, strict=True)]
        for name, found in (("empty", empty), ("own", own))
    }
    ratio = medians["own"][0] / medians["empty"][0]
    return {"ratio": ratio, **medians, "asked": asked, "runs": runs, "load": load}


def report(found: dict[str, Any]) -> str:
    """The figures as tables."""
    own, empty = found["own"], found["empty"]
    lines = [
        f"Times are CPU time of a fresh process, medians of {found['runs']} alternating runs on "
        f"{platform.processor() or platform.machine()}, {OURS}.",
        f"The load by other programs when they began: {found['load']:.1f}.",
        "",
        "| | import and open | first request | **cold start** | second request |",
        "|---|---|---|---|---|",
        f"| the API function | {own[1]:.0f} ms | {own[2]:.0f} ms | **{own[0]:.0f} ms** "
        f"| {own[3]:.1f} ms |",
        f"| FastAPI and Mangum, one route | {empty[1]:.0f} ms | {empty[2]:.0f} ms "
        f"| **{empty[0]:.0f} ms** | {empty[3]:.1f} ms |",
        f"| ratio | | | **{found['ratio']:.2f}** (goal: at most {RATIO_MAX}) | |",
        "",
        "The first request is an authenticated stat of one object.",
        "A cold start and a second, warm request send these requests over TLS: "
        + ", ".join(f"{count:g} {name}" for name, count in sorted(found["asked"].items()))
        + ".",
        "",
    ]
    return "\n".join(lines)


def _built(folder: Path) -> tuple[Path, Path]:
    """The folders with the code of the function and the packages of the layer, as deployed."""
    build = [sys.executable, str(ROOT / "layers" / "build.py"), "--runtime", OURS]
    build += ["--architecture", Target().architecture]
    subprocess.run([*build, "layer", str(folder / "layer")], check=True)
    subprocess.run([*build, "function", "api", str(folder / "api")], check=True)
    return folder / "api", folder / "layer" / "python"


def _packages() -> str:
    """The folder of this environment's packages, which has the bytecode of FastAPI and Mangum."""
    return sysconfig.get_paths()["purelib"]


def _event(world: World) -> dict[str, Any]:
    given = world.credential
    token = base64.b64encode(f"{given.access_key_id}:{given.secret_access_key}".encode()).decode()
    path = f"/api/v1/repositories/lake/refs/{world.ref}/objects/stat"
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": f"path={ASKED}",
        "headers": {"host": "api", "authorization": f"Basic {token}", "x-forwarded-proto": "https"},
        "requestContext": {"http": {"method": "GET", "path": path, "sourceIp": "192.0.2.1"}},
        "isBase64Encoded": False,
    }


def _run(code: str, arguments: list[str], environment: dict[str, str]) -> list[Any]:
    with tempfile.TemporaryDirectory(prefix="graveler-cold-") as cache:
        ran = subprocess.run(
            [sys.executable, "-I", "-S", "-c", code, *arguments],
            env={**environment, "GRAVELER_CACHE_FOLDER": cache},
            capture_output=True,
            text=True,
            check=False,
        )
    if ran.returncode:
        raise RuntimeError(ran.stderr)
    found: list[Any] = json.loads(ran.stdout.strip().splitlines()[-1])
    return found


if __name__ == "__main__":
    sys.exit(main())
