"""The spectral attention of a run: recorded, kept, shown as maps over the photo, and explored pixel by pixel."""
