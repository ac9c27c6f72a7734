"""Buckets as the deployment makes them: with versions."""

from graveler.aws import AwsSession


def create_bucket(session: AwsSession, name: str, *, versioned: bool = True) -> None:
    """A new bucket."""
    client = session.client("s3", options={"s3": {"addressing_style": "path"}})
    client.create_bucket(Bucket=name)
    if versioned:
        client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    client.close()
