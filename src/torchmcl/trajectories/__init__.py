"""Pedestrian trajectories: K futures with probabilities."""
