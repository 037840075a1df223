"""The light that a photo was taken in, estimated from the photo by a small vision transformer."""
