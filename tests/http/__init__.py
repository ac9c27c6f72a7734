"""Tests of what the API, the S3 gateway and signed URLs share of HTTP."""
