"""Tests of graveler/spark/verbs."""
