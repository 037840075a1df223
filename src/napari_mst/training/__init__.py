"""Training: spectra become scenes, scenes photos, and a fit makes weights; tables judge models."""
