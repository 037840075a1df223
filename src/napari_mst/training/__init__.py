"""Training: spectra become scenes, scenes become photos, and a fit makes weights of them."""
