"""Typed configurations, runs and studies."""
