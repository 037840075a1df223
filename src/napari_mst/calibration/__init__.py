"""What the values of a photo mean: white, light, chart, flat field."""
