"""Fast paths: passes computed faster than as they are written, each with its reference."""
