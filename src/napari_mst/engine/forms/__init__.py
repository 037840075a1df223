"""Fast forms: passes computed better than as they are written, each with its reference."""
