"""Simulated scenes: measured reflectances, and the photos that cameras make of them."""
