"""Many photos in one run: finds them, plans their cubes, and shares the work between runs."""
