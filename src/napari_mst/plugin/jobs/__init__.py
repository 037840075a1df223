"""The one running job that the docks share: its state, its thread, and what becomes of its result."""
