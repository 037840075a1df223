"""Many photos in one run: finding them, planning their cubes, and sharing the work between runs."""
