"""Benchmarks: real Redis, real worker processes, figures as a table. Never part of the tests."""
