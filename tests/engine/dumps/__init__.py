"""Tests of `graveler.engine.dumps`."""
