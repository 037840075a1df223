"""How good a method is: baselines, degraded photos, real scenes, and the tables that compare them."""
