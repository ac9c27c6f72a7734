"""The Python part of scripts/real_aws.sh: the story of a deployed stack, and its removal.

    python -m scripts.real_aws story STACK     calls the API with the lakeFS client
    python -m scripts.real_aws remove STACK    deletes table, bucket and secret

Table, bucket and secret outlive the deletion of the stack.  `--url` names a local engine instead of
AWS; the tests use it.
"""

import argparse
import sys
import urllib.request
from typing import Any

from scripts import deploy

PART_BYTES = 5 << 20  # minimum of S3 for a part that is not the last


def story(stack: str, url: str = "") -> None:
    """Create a repository, commit, merge, upload in two parts.  Raises if a result is wrong."""
    import lakefs
    from lakefs.client import Client

    outputs = deploy.outputs(stack, url)
    where = deploy.local_url(url, outputs["ApiId"]) if url else outputs["Url"]
    key, secret = deploy.first_credentials(stack, url)
    client = Client(host=where, username=key, password=secret)
    repo = lakefs.Repository("release", client=client)
    repo.create(storage_namespace=f"s3://{outputs['Bucket']}/release")
    main = repo.branch("main")
    main.object("a").upload(data=b"first", pre_sign=False)
    first = main.commit("first").get_commit()
    feature = repo.branch("feature").create("main")
    feature.object("b").upload(data=b"second", pre_sign=True)
    feature.commit("second")
    feature.merge_into(main)
    _upload_in_parts(client, "release", "main", "large")
    main.commit("large")
    paths = [each.path for each in main.objects()]
    assert paths == ["a", "b", "large"], paths
    body = main.object("large").reader(mode="rb", pre_sign=True).read()
    assert body == _part(1) + _part(2), len(body)
    assert [each.path for each in repo.ref(first.id).objects()] == ["a"]


def _part(number: int) -> bytes:
    return bytes([number]) * PART_BYTES if number == 1 else b"end"


def _upload_in_parts(client: Any, repository: str, branch: str, path: str) -> None:
    """Begin a multipart upload, put each part by its URL, complete the upload."""
    from lakefs_sdk import CompletePresignMultipartUpload, UploadPart

    api = client.sdk_client.experimental_api
    upload = api.create_presign_multipart_upload(repository, branch, path, parts=2)
    parts = []
    for number, url in enumerate(upload.presigned_urls, start=1):
        request = urllib.request.Request(url, _part(number), method="PUT")
        with urllib.request.urlopen(request, timeout=120) as answer:
            parts.append(UploadPart(part_number=number, etag=answer.headers["ETag"].strip('"')))
    api.complete_presign_multipart_upload(
        repository,
        branch,
        upload.upload_id,
        path,
        complete_presign_multipart_upload=CompletePresignMultipartUpload(
            physical_address=upload.physical_address, parts=parts
        ),
    )


def remove(stack: str, url: str = "") -> None:
    """Delete the resources that stay when a stack is deleted.  Missing ones are skipped."""
    from botocore.exceptions import ClientError

    account = deploy.client("sts", url).get_caller_identity()["Account"]
    objects = deploy.client("s3", url)
    bucket = f"{stack}-data-{account}-{objects.meta.region_name}"
    actions = (
        lambda: _empty(objects, bucket),
        lambda: objects.delete_bucket(Bucket=bucket),
        lambda: deploy.client("dynamodb", url).delete_table(TableName=stack),
        lambda: deploy.client("secretsmanager", url).delete_secret(
            SecretId=stack, ForceDeleteWithoutRecovery=True
        ),
    )
    for action in actions:
        try:
            action()
        except ClientError as error:
            if error.response["Error"]["Code"] not in _GONE:
                raise


_GONE = ("NoSuchBucket", "ResourceNotFoundException")


def _empty(objects: Any, bucket: str) -> None:
    for page in objects.get_paginator("list_object_versions").paginate(Bucket=bucket):
        for version in (*page.get("Versions", ()), *page.get("DeleteMarkers", ())):
            objects.delete_object(Bucket=bucket, Key=version["Key"], VersionId=version["VersionId"])


def main() -> None:
    """Run the story or the removal."""
    parser = argparse.ArgumentParser(description="the story of a deployed stack, and its removal")
    parser.add_argument("what", choices=["story", "remove"])
    parser.add_argument("stack")
    parser.add_argument("--url", default="", help="of a local engine; AWS without it")
    options = parser.parse_args()
    {"story": story, "remove": remove}[options.what](options.stack, options.url)
    sys.stdout.write(f"{options.what}: done\n")


if __name__ == "__main__":
    main()
