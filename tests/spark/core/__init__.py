"""Tests of graveler/spark/core."""
