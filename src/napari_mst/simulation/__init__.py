"""Simulated scenes of measured reflectances, and the photos that show them."""
