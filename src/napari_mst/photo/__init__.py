"""How a photo comes in: files and arrays as they were stored, and the camera and light that made them."""
