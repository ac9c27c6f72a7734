"""Tests of `graveler.engine.jobs`."""
