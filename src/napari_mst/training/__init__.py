"""Training: simulated photos of scenes, fits of networks, and tables that compare models."""
