"""s3torchconnector, unmodified, on a branch.

The environment names the service: ENDPOINT, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, BUCKET,
PREFIX (a branch and a folder, with `/` at its end), and MANY (a folder with 2,505 objects).  Prints
a line for each operation that works, and fails at the first one that does not.
"""

import argparse
import os

import torch
from s3torchconnector import S3Checkpoint, S3ClientConfig, S3IterableDataset, S3MapDataset
from s3torchconnector._s3client import S3Client

MIB = 1 << 20
NAMES = ["a b", "a+b", "a%2Fb", "a%b", "a&b", "ü", "q\"'<>", "#?=;@:$,", "b\\c", "x//y", "cr\r"]
SIZES = [0, 5 * MIB - 1, 5 * MIB, 5 * MIB + 1, 64 * MIB]
REGION = "us-east-1"


def main() -> None:
    argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "").parse_args()
    bucket, prefix, many = (os.environ[name] for name in ("BUCKET", "PREFIX", "MANY"))
    config = S3ClientConfig(force_path_style=True)
    client = S3Client(REGION, endpoint=os.environ["ENDPOINT"], s3client_config=config)

    def put(key: str, body: bytes) -> None:
        writer = client.put_object(bucket, key)
        writer.write(body)
        writer.close()

    def got(key: str) -> bytes:
        return bytes(client.get_object(bucket, key).read())

    def listed(below: str) -> list[str]:
        pages = client.list_objects(bucket, below)
        return [each.key for page in pages for each in page.object_info]

    keys = sorted((f"{prefix}names/{name}" for name in NAMES), key=str.encode)
    for key in keys:
        put(key, key.encode())
        assert got(key) == key.encode(), key
        assert client.head_object(bucket, key).size == len(key.encode())
    assert listed(f"{prefix}names/") == keys
    for key in keys:
        client.delete_object(bucket, key)
    assert listed(f"{prefix}names/") == []
    print("odd names: put, get, head, list, delete")

    # Of a name that needs no percent-encoding: the CRT encodes the path of the source nowhere.
    put(f"{prefix}plain", b"copied")
    client.copy_object(bucket, f"{prefix}plain", bucket, f"{prefix}copy of plain")
    assert got(f"{prefix}copy of plain") == b"copied"
    print("copy of a plain name")

    for size in SIZES:
        body = (b"graveler" * (size // 8 + 1))[:size]
        put(f"{prefix}sizes/{size}", body)
        assert got(f"{prefix}sizes/{size}") == body
    print("0 bytes, 5 MiB ± 1, 64 MiB: put, get")

    assert len(listed(many)) == 2505
    print("list of 2,505 keys")

    given = {"region": REGION, "endpoint": os.environ["ENDPOINT"], "s3client_config": config}
    uri = f"s3://{bucket}/{prefix}"
    items = S3MapDataset.from_prefix(f"{uri}sizes/", **given)
    assert sorted(len(item.read()) for item in items) == sorted(SIZES)
    items = S3IterableDataset.from_prefix(f"s3://{bucket}/{many}", **given)
    assert sum(1 for _ in items) == 2505
    print("map and iterable data sets")

    checkpoint = S3Checkpoint(REGION, endpoint=os.environ["ENDPOINT"], s3client_config=config)
    tensor = torch.arange(5_000_000)
    with checkpoint.writer(f"{uri}model.pt") as writer:
        torch.save({"weights": tensor}, writer)
    with checkpoint.reader(f"{uri}model.pt") as reader:
        assert torch.equal(torch.load(reader)["weights"], tensor)
    print("checkpoint of 40 MB: save, load")


if __name__ == "__main__":
    main()
