"""Measurements, each a program of its own: `python -m lab.benchmarks.NAME`."""
