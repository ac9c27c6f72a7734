"""Tests of graveler/spark/cluster."""
