"""Deploys the template with stock SAM: into an AWS account, or into a local engine that it starts.

    deploy.py            sam build, sam deploy; old versions of the functions are deleted
    deploy.py --local    the same into an engine on this machine, which serves until interrupted

An interpreter of the deployed version compiles the layer's bytecode.  A local engine runs functions
with the interpreter of this machine.  So a local deployment builds the layer for that interpreter,
whatever runtime the template declares.

scripts/deploy.sh calls this script; the tests use its functions.
"""

import argparse
import base64
import contextlib
import json
import os
import platform
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from scripts import account, parameters
from scripts.parameters import Failed

ROOT = Path(__file__).resolve().parent.parent
OURS = f"python{sys.version_info.major}.{sys.version_info.minor}"
RUNTIMES = ("python3.12", "python3.13", "python3.14")  # that the template allows, oldest first
RUNTIME = "python3.13"  # the default
TEMPLATE = ROOT / "template.yaml"
START_SECONDS = 60
VERSIONS_KEPT = 2
READY_ATTEMPTS = 8  # a new API takes some seconds to be reached
READY_PAUSE_SECONDS = 4.0
LOG_LINES = 12
LOCAL_CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "LAMBDA_ACCOUNT_CONCURRENCY": "6",
}


LOCAL_PARAMETERS = ("Concurrency=few",)
ENDPOINT = "AWS_ENDPOINT_URL"
CONFIRM = "--confirm-changeset"
HOOKS_KEY = "GRAVELER_HOOKS_SECRET"


class Target(NamedTuple):
    """The stack to deploy: its platform, and the parameters of the template.

    `runtime`: the Python version that the layer is built for.  `declared`: the runtime of the
    functions in the template.  `options`: further options of `sam deploy`.
    """

    stack: str = "graveler"
    runtime: str = OURS
    declared: str = OURS if OURS in RUNTIMES else RUNTIMES[0]
    architecture: str = "x86_64" if platform.machine() in ("x86_64", "AMD64") else "arm64"
    layer_python: str = sys.executable
    parameters: tuple[str, ...] = ()
    options: tuple[str, ...] = ("--resolve-s3", "--no-confirm-changeset")

    @classmethod
    def here(cls, stack: str, *parameters: str) -> "Target":
        """A target for a local engine: the Python version of this machine, and low concurrency."""
        return cls(stack, parameters=(*LOCAL_PARAMETERS, *parameters))

    def checked(self, previous: Mapping[str, str]) -> dict[str, str]:
        """The values of the parameters that are given.  Raises `Failed` for wrong ones."""
        values = parameters.checked(self.parameters, parameters.read(TEMPLATE), previous)
        return {"Runtime": self.declared, "Architecture": self.architecture, **values}


def tool(name: str) -> str:
    """The path of a program, from $GRAVELER_TOOLS, .venv-tools/bin or PATH."""
    folder = Path(os.environ.get("GRAVELER_TOOLS") or ROOT / ".venv-tools" / "bin")
    program = str(folder / name) if (folder / name).exists() else shutil.which(name)
    if not program:
        raise Failed(f"{name} was not found; make setup installs it into .venv-tools")
    return program


def build(target: Target, folder: Path) -> Path:
    """Build the template into `folder`.  Returns the path of the built template."""
    settings = {
        "RUNTIME": target.runtime,
        "ARCHITECTURE": target.architecture,
        "LAYER_PYTHON": target.layer_python,
        "LAYER_PIP": sys.executable,
    }
    command = [tool("sam"), "build", "--build-dir", str(folder), "--parameter-overrides"]
    command += [f"Runtime={target.declared}", f"Architecture={target.architecture}"]
    run_sam(command, settings, "build")
    return folder / "template.yaml"


def deploy(
    target: Target,
    template: Path,
    variables: Mapping[str, str],
    previous: Mapping[str, str] | None = None,
) -> None:
    """Create or update the stack.  `variables`: environment with the endpoint and the
    credentials.  `previous`: the parameters of the stack.  Raises `Failed` if SAM asked whether to
    make the changes, and the answer was no."""
    given = target.checked(previous or {})
    command = [tool("sam"), "deploy", "--template-file", str(template)]
    command += ["--stack-name", target.stack, "--capabilities", "CAPABILITY_IAM"]
    command += ["--no-fail-on-empty-changeset", "--no-progressbar", *target.options]
    with tempfile.TemporaryDirectory(prefix="graveler-") as folder:
        file = parameters.written(given, Path(folder) / "parameters.yaml")
        run_sam([*command, "--parameter-overrides", file], variables, "deploy")
    if CONFIRM in target.options and _is_declined(target.stack, variables.get(ENDPOINT, "")):
        raise Failed(f"nothing was deployed: you declined the changes of the stack {target.stack}")


def run_sam(command: list[str], variables: Mapping[str, str], verb: str) -> None:
    """Run SAM.  Its output is not captured, because a deployment takes minutes."""
    environment = {**os.environ, "SAM_CLI_TELEMETRY": "0", **variables}
    if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
        raise Failed(f"sam {verb} failed; see above")


def client(service: str, url: str) -> Any:
    """A boto3 client of AWS, or of a local engine at `url`."""
    import boto3

    if not url:
        return boto3.client(service)
    return boto3.client(
        service,
        endpoint_url=url,
        region_name=LOCAL_CREDENTIALS["AWS_REGION"],
        aws_access_key_id=LOCAL_CREDENTIALS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=LOCAL_CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
    )


def _is_declined(stack: str, url: str) -> bool:
    """Whether the newest change set still waits.  SAM ends with 0 if it was declined, if it was
    empty, and if it was executed."""
    with _asking(f"whether the changes of the stack {stack} were made"):
        pages = client("cloudformation", url).get_paginator("list_change_sets")
        found = [each for page in pages.paginate(StackName=stack) for each in page["Summaries"]]
    newest: dict[str, Any] = max(found, key=lambda each: each["CreationTime"], default={})
    return newest.get("ExecutionStatus") == "AVAILABLE"


@contextlib.contextmanager
def _asking(what: str) -> Iterator[None]:
    """A refusal of AWS, and a failure to reach it, become `Failed`."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise Failed(f"AWS does not say {what}: {error}") from error


def described(stack: str, url: str = "") -> dict[str, Any]:
    """The stack; empty if there is none.  Raises `Failed` if AWS does not say."""
    from botocore.exceptions import ClientError

    with _asking(f"whether there is a stack {stack}"):
        try:
            [found] = client("cloudformation", url).describe_stacks(StackName=stack)["Stacks"]
        except ClientError as error:
            details = error.response["Error"]
            if details["Code"] == "ValidationError" and "does not exist" in details["Message"]:
                return {}
            raise
    return dict(found)


def outputs(stack: str, url: str = "") -> dict[str, str]:
    """The outputs of the stack."""
    found = described(stack, url)
    if "Outputs" not in found:
        state = found.get("StackStatus", "no state")
        raise Failed(f"the stack {stack} was not deployed: it is in {state}")
    return {each["OutputKey"]: each["OutputValue"] for each in found["Outputs"]}


def previous_parameters(stack: str, url: str = "") -> dict[str, str]:
    """The parameters of the stack, which stay where none is given; empty if there is no stack."""
    found = described(stack, url)
    if found.get("StackStatus") in ("ROLLBACK_COMPLETE", "REVIEW_IN_PROGRESS"):
        return {}
    return {each["ParameterKey"]: each["ParameterValue"] for each in found.get("Parameters", ())}


def check_ready(
    ready_url: str, stack: str, url: str = "", pause: Callable[[float], None] = time.sleep
) -> None:
    """Return once the API answers that it is ready.  Raises `Failed` with the function's own
    error."""
    said = ""
    for attempt in range(READY_ATTEMPTS):
        if attempt:
            pause(READY_PAUSE_SECONDS)
        try:
            urllib.request.urlopen(ready_url, timeout=40).close()
        except urllib.error.HTTPError as error:
            with error:
                said = f"{error.code} {error.read(1000).decode(errors='replace')}"
        except OSError as error:
            said = str(error)
        else:
            return
    raise Failed(
        f"the stack is deployed, but the API does not work: {ready_url} answers {said}\n"
        f"{_cause(stack, url)}"
    )


def _cause(stack: str, url: str) -> str:
    """What the API's function says if it is asked directly: its error, and the end of its log."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        answer = client("lambda", url).invoke(
            FunctionName=f"{stack}-api", Qualifier="live", LogType="Tail", Payload=_READINESS
        )
    except (BotoCoreError, ClientError) as error:
        hint = f"aws logs tail /aws/lambda/{stack}-api --since 10m"
        return f"the function could not be asked for the cause ({error}); read its log: {hint}"
    log = base64.b64decode(answer.get("LogResult", "")).decode(errors="replace")
    said = answer["Payload"].read(4000).decode(errors="replace")
    return "\n  ".join([f"the function says: {said}", *log.splitlines()[-LOG_LINES:]])


_READINESS = json.dumps(
    {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": "/_health/ready",
        "rawQueryString": "",
        "headers": {"host": "deploy"},
        "requestContext": {
            "http": {
                "method": "GET",
                "path": "/_health/ready",
                "protocol": "HTTP/1.1",
                "sourceIp": "127.0.0.1",
                "userAgent": "deploy",
            },
            "requestId": "deploy",
            "stage": "$default",
        },
        "isBase64Encoded": False,
    }
)


def clear_failed(stack: str, url: str = "") -> bool:
    """Delete a stack whose creation was rolled back.  Returns whether there was one.

    Nothing can be deployed over such a stack, and it has no resources left.
    """
    if described(stack, url).get("StackStatus") != "ROLLBACK_COMPLETE":
        return False
    stacks = client("cloudformation", url)
    stacks.delete_stack(StackName=stack)
    stacks.get_waiter("stack_delete_complete").wait(StackName=stack)
    return True


def prune(stack: str, url: str = "") -> int:
    """Delete old versions of the API function, because each one costs money if snapshots are on.

    The newest `VERSIONS_KEPT` versions stay for a rollback, and every version that an alias names.
    """
    functions, name = client("lambda", url), f"{stack}-api"
    pages = functions.get_paginator("list_versions_by_function").paginate(FunctionName=name)
    versions = [each["Version"] for page in pages for each in page["Versions"]]
    numbers = sorted((int(each) for each in versions if each.isdigit()), reverse=True)
    aliases = functions.list_aliases(FunctionName=name)["Aliases"]
    named = {each["FunctionVersion"] for each in aliases}
    old = [str(each) for each in numbers[VERSIONS_KEPT:] if str(each) not in named]
    for version in old:
        functions.delete_function(FunctionName=name, Qualifier=version)
    return len(old)


def with_hooks_secret(target: Target, url: str, variables: Mapping[str, str]) -> Target:
    """The target with a secret of hooks, which is made in a local engine from the variables that
    `graveler serve` would read.  Without `HooksAllow`, and with `HooksSecretArn`: the same target.
    """
    names = {parameter.partition("=")[0] for parameter in target.parameters}
    if "HooksAllow" not in names or "HooksSecretArn" in names:
        return target
    if HOOKS_KEY not in variables:
        raise Failed(f"HooksAllow needs a key that signs what hooks send; set {HOOKS_KEY}")
    values = {
        name: value
        for name, value in variables.items()
        if name == HOOKS_KEY or name.startswith("LAKEFSACTION_")
    }
    made = client("secretsmanager", url).create_secret(
        Name=f"{target.stack}-hooks", SecretString=json.dumps(values)
    )
    return target._replace(parameters=(*target.parameters, f"HooksSecretArn={made['ARN']}"))


def local_url(url: str, api_id: str) -> str:
    """The URL at which a local engine serves an HTTP API."""
    return f"{url}/_aws/execute-api/{api_id}/$default/api/v1"


def local_ready_url(url: str, api_id: str) -> str:
    """Where the API tells in a local engine that it is ready."""
    return local_url(url, api_id).removesuffix("/api/v1") + "/_health/ready"


def first_credentials(stack: str, url: str = "") -> tuple[str, str]:
    """The first credentials of the administrator, as CredentialsCommand prints them."""
    text: str = client("secretsmanager", url).get_secret_value(SecretId=stack)["SecretString"]
    return f"GRVL{text[:16]}", text[16:56]


@contextlib.contextmanager
def engine(log: Path, variables: Mapping[str, str] | None = None) -> Iterator[str]:
    """Run a local engine of AWS and yield its URL.

    At the end, the engine stops, with the functions that it runs, and the copies of their code are
    deleted.  `variables` are added to the environment of the engine.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = {"BIND_HOST": "127.0.0.1", "GATEWAY_PORT": str(port), "IOT_MTLS_ENABLED": "0"}
    with (
        tempfile.TemporaryDirectory(
            prefix="graveler-engine-", ignore_cleanup_errors=True
        ) as copies,
        log.open("wb") as output,
    ):
        environment = {**os.environ, **LOCAL_CREDENTIALS, **settings, **(variables or {})}
        process = subprocess.Popen(
            [tool("ministack")],
            env={**environment, "TMPDIR": copies},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            url = f"http://127.0.0.1:{port}"
            _wait(process, url)
            yield url
        finally:
            _end(process)


def _wait(process: "subprocess.Popen[bytes]", url: str) -> None:
    for _ in range(START_SECONDS * 20):
        if process.poll() is not None:
            raise Failed("the local engine ended at once")
        try:
            urllib.request.urlopen(f"{url}/_ministack/health", timeout=5).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise Failed("the local engine does not answer")


def _end(process: "subprocess.Popen[bytes]") -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(10)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # functions that still run
        return


def options_of(words: list[str]) -> argparse.Namespace:
    """The options and parameters of the command."""
    parser = argparse.ArgumentParser(description="deploys the template with stock SAM")
    parser.add_argument("--local", action="store_true", help="into an engine on this machine")
    parser.add_argument("--once", action="store_true", help="with --local: end after deploying")
    parser.add_argument("--stack", default="graveler", help="a name in lower case")
    parser.add_argument("--runtime", default=RUNTIME, choices=RUNTIMES)
    parser.add_argument("--architecture", default="arm64", choices=["arm64", "x86_64"])
    parser.add_argument("--layer-python", default="", help="an interpreter of the runtime")
    parser.add_argument("--tags", default="", help="of all resources: 'team=data cost=42'")
    parser.add_argument("--role", default="", help="ARN of the role that CloudFormation takes")
    parser.add_argument("--bucket", default="", help="for the code, instead of a bucket of SAM's")
    parser.add_argument("--confirm", action="store_true", help="show the changes, and ask")
    parser.add_argument("parameters", nargs="*", help="of the template: Name=value")
    return parser.parse_args(words)


def sam_options(options: argparse.Namespace) -> tuple[str, ...]:
    """What `sam deploy` is told of the account's rules."""
    found = ["--s3-bucket", options.bucket] if options.bucket else ["--resolve-s3"]
    if options.role:
        found += ["--role-arn", options.role]
    tags = shlex.split(options.tags)
    wrong = [tag for tag in tags if not re.fullmatch(r"[^=]+=[^=]*", tag)]
    if wrong:
        raise Failed(f"a tag is KEY=VALUE, with quotes around one that has a space: {wrong[0]!r}")
    found += ["--tags", *tags] if tags else []
    return (*found, CONFIRM if options.confirm else "--no-confirm-changeset")


def main() -> int:
    """Run the command.  Returns 1, and prints the failure, if there is one."""
    options = options_of([*sys.argv[1:], *parameters.words(os.environ.get("ARGS", ""))])
    try:
        return _local(options) if options.local else _account(options)
    except Failed as error:
        sys.stderr.write(f"deploy: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 0


def _account(options: argparse.Namespace) -> int:
    check_name(options.stack)
    _check_account()
    runtime, given = options.runtime, tuple(options.parameters)
    previous = previous_parameters(options.stack)
    target = Target(
        options.stack, runtime, runtime, options.architecture, "", given, sam_options(options)
    )
    values = parameters.in_force(
        parameters.read(TEMPLATE), {**previous, **target.checked(previous)}
    )
    for warning in account.check(values, client):
        _say(f"warning: {warning}")
    target = target._replace(layer_python=options.layer_python or interpreter(runtime))
    _say(f"building for {target.runtime} on {target.architecture}")
    template = build(target, ROOT / "build" / "sam")
    if clear_failed(target.stack):
        _say("the remains of a creation that was rolled back are deleted")
    _say(f"deploying the stack {target.stack}")
    deploy(target, template, {}, previous)
    told = outputs(target.stack)
    check_ready(told["ReadyUrl"], target.stack)
    old = prune(target.stack)
    _say(f"deployed and ready; {old} old versions deleted\n\n  {told['Url']}\n")
    _say(f"the first credentials:\n\n  {told['CredentialsCommand']}")
    return 0


def _local(options: argparse.Namespace) -> int:
    for number in (signal.SIGINT, signal.SIGTERM):  # even if the shell ignores them
        signal.signal(number, _interrupted)
    target = Target.here(options.stack, *options.parameters)
    with tempfile.TemporaryDirectory(prefix="graveler-") as name:
        folder = Path(name)
        with engine(folder / "engine.log") as url:
            target = with_hooks_secret(target, url, os.environ)
            target.checked({})
            _say(f"building for {target.runtime} on {target.architecture}")
            template = build(target, folder / "sam")
            _say("deploying into the local engine")
            deploy(target, template, {**LOCAL_CREDENTIALS, ENDPOINT: url})
            told = outputs(target.stack, url)
            check_ready(local_ready_url(url, told["ApiId"]), target.stack, url)
            _say(_served(target.stack, url, told))
            if not options.once:
                _say("Serving until interrupted (Ctrl-C); the data is gone then.")
            while not options.once:
                signal.pause()
    return 0


def _served(stack: str, url: str, told: Mapping[str, str]) -> str:
    """What a client of the local engine needs."""
    key, secret = first_credentials(stack, url)
    command = told["CredentialsCommand"].replace("aws ", f"aws --endpoint-url {url} ", 1)
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    engine_keys = " ".join(f"{name}={LOCAL_CREDENTIALS[name]}" for name in names)
    return f"""
  URL         {local_url(url, told["ApiId"])}
  access key  {key}
  secret      {secret}
  bucket      s3://{told["Bucket"]}   (storage namespaces begin with it)

The credentials are printed again by

  {engine_keys} {command}
"""


def _interrupted(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def check_name(stack: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,29}", stack):
        raise Failed(f"a stack's name has up to 30 of a-z, 0-9 and -: stack={stack}")


def _check_account() -> None:
    import botocore.session

    session = botocore.session.get_session()
    if session.get_credentials() is None:
        raise Failed("no AWS credentials were found; set AWS_PROFILE, or run aws configure")
    if not session.get_config_variable("region"):
        raise Failed("no AWS region was found; set AWS_DEFAULT_REGION, or run aws configure")


def interpreter(runtime: str) -> str:
    program = found(runtime)
    if program:
        return program
    others = [name for name in reversed(RUNTIMES) if found(name)]
    hint = f", or deploy what is here with RUNTIME={others[0]}" if others else ""
    raise Failed(
        f"bytecode for {runtime} needs that interpreter, and none is here; install it, or name it "
        f"with LAYER_PYTHON={hint}"
    )


def found(runtime: str) -> str:
    """The path of an interpreter of that version: on PATH, this one, or one that pyenv made; empty
    if there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    made = pyenv.glob(f"versions/{runtime.removeprefix('python')}.*/bin/{runtime}")
    for name in (runtime, sys.executable, *map(str, sorted(made))):
        program = shutil.which(name)
        if program and _version(program) == runtime:
            return program
    return ""


def _version(python: str) -> str:
    code = "import sys; print('python%d.%d' % sys.version_info[:2])"
    ran = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=False)
    return ran.stdout.strip()


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
