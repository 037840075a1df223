"""Judging models on real scenes: kinds of photos, methods, scenes, and tables of scores."""
