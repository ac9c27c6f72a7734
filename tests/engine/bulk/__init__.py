"""Tests of `graveler.engine.bulk`."""
