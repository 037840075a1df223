"""Fast forms: passes of a network computed better than as they are written, each with its reference."""
