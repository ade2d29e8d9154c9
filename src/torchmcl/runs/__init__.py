"""A run is a folder: settings, weights, records, and the processes that fill it."""
