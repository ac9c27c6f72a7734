"""Buckets as the deployment makes them: with versions."""

from typing import Any

from graveler.core.aws import AwsSession, Client


def _client(session: AwsSession) -> Client:
    style = "path" if session.settings.endpoint_url else "auto"
    return session.client("s3", options={"s3": {"addressing_style": style}})


def create_bucket(session: AwsSession, name: str, *, versioned: bool = True) -> None:
    """A new bucket."""
    client, more = _client(session), dict[str, Any]()
    if session.region() != "us-east-1":
        more["CreateBucketConfiguration"] = {"LocationConstraint": session.region()}
    client.create_bucket(Bucket=name, **more)
    client.close()
    if versioned:
        keep_versions(session, name)


def keep_versions(session: AwsSession, name: str, *, status: str = "Enabled") -> None:
    """From now on every put makes a version; `Suspended`: not any more."""
    client = _client(session)
    client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": status})
    client.close()


def wipe_bucket(session: AwsSession, name: str) -> None:
    """Remove every version of everything."""
    client = _client(session)
    for page in client.get_paginator("list_object_versions").paginate(Bucket=name):
        for found in (*page.get("Versions", ()), *page.get("DeleteMarkers", ())):
            client.delete_object(Bucket=name, Key=found["Key"], VersionId=found["VersionId"])
    client.close()


def delete_bucket(session: AwsSession, name: str) -> None:
    """Remove a bucket and all that is in it."""
    wipe_bucket(session, name)
    client = _client(session)
    client.delete_bucket(Bucket=name)
    client.close()
