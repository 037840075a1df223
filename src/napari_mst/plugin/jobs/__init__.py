"""The one running job that the docks share: its request, state, thread and results."""
