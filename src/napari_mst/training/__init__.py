"""Training: measured spectra -> simulated scenes -> photos -> weights, and how good those are on real scenes."""
