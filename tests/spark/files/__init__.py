"""Tests of graveler/spark/files."""
