"""The S3 gateway: real clients, recorded answers, hostile requests."""
