"""Hydra configurations: one small file a choice."""
