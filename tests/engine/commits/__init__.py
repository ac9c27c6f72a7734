"""Tests of `graveler.engine.commits`."""
