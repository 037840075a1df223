"""The light that a photo was taken in, told from the photo by a small vision transformer."""
