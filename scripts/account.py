"""What a deployment needs of its account and the template cannot ask, before anything is built.

A caller who may not ask is told what was not checked.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from scripts.parameters import Failed

AT_ONCE = {"few": 4, "usual": 32, "many": 300}  # deliveries and jobs together
API_AT_ONCE = 20  # a small number of callers
UNRESERVED_MIN = 100  # Lambda reserves no more than leaves so many

Client = Callable[[str, str], Any]


def check(values: Mapping[str, str], client: Client) -> list[str]:
    """What is likely to fail, one sentence each.  `values`: of all parameters.  Raises `Failed` for
    a network in which the functions cannot work."""
    from botocore.exceptions import BotoCoreError, ClientError

    found: dict[str, list[str]] = {}
    warnings: list[str] = []
    for name, ask in (("concurrency", _concurrency), ("network", _network)):
        try:
            found[name] = list(ask(values, client))
        except (BotoCoreError, ClientError) as error:
            warnings.append(f"the account's {name} could not be checked: {error}")
    if faults := found.get("network"):
        raise Failed("nothing was deployed:\n  " + "\n  ".join(faults))
    return warnings + found.get("concurrency", [])


def _concurrency(values: Mapping[str, str], client: Client) -> Iterator[str]:
    limits = client("lambda", "").get_account_settings()["AccountLimit"]
    limit, needed = limits["ConcurrentExecutions"], AT_ONCE[values["Concurrency"]] + API_AT_ONCE
    if limit < needed:
        yield (
            f"this account runs {limit} functions at the same time, and Concurrency="
            f"{values['Concurrency']} needs about {needed}: requests will be answered with 429 or "
            "503; ask AWS for a higher quota (Service Quotas, Lambda, Concurrent executions)"
            + ("" if values["Concurrency"] == "few" else ", or give Concurrency=few")
        )
    reserved = sum(int(values[f"{name}Reserved"]) for name in ("Api", "Worker", "Hooks"))
    if reserved and limit - reserved < UNRESERVED_MIN:
        yield (
            f"{reserved} reserved of {limit} leave fewer than {UNRESERVED_MIN}, which Lambda "
            "refuses; ask AWS for a higher quota, or reserve less"
        )


def _network(values: Mapping[str, str], client: Client) -> Iterator[str]:
    if values["Efs"] != "on":
        return
    network, names = client("ec2", ""), [values["SubnetA"], values["SubnetB"]]
    subnets = network.describe_subnets(SubnetIds=names)["Subnets"]
    if len({each["AvailabilityZone"] for each in subnets}) < len(names):
        yield "SubnetA and SubnetB are in one zone; EFS takes one of each zone"
    if {each["VpcId"] for each in subnets} != {values["VpcId"]}:
        yield f"SubnetA and SubnetB are not both in VpcId={values['VpcId']}"
    if "create" in (values["TableEndpoint"], values["BucketsEndpoint"]):
        filters = [{"Name": "vpc-id", "Values": [values["VpcId"]]}]
        tables = network.describe_route_tables(Filters=filters)["RouteTables"]
        given = set(values["RouteTableIds"].split(","))
        for name in names:
            if (used := _table_of(name, tables)) not in given:
                yield (
                    f"the routes of {name} are in {used}, which RouteTableIds does not name: "
                    "functions there will reach neither DynamoDB nor S3"
                )


def _table_of(subnet: str, tables: Sequence[Mapping[str, Any]]) -> str:
    """The route table of a subnet: its own, or the main one of the VPC."""
    main = ""
    for table in tables:
        for each in table["Associations"]:
            if each.get("SubnetId") == subnet:
                return str(table["RouteTableId"])
            if each.get("Main"):
                main = table["RouteTableId"]
    return main
