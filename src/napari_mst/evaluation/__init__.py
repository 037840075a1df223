"""Judging methods: baselines, degraded photos, real scenes, and the tables that compare them."""
