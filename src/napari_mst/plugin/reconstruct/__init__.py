"""The dock that reconstructs a photo."""
