"""Tests of `graveler.engine.imports`."""
