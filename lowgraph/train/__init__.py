"""The trainer: settings, text, the loop around a GraphStep, checkpoints, and its results."""
