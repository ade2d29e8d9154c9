"""All doors in a few minutes: the toy experiment, a table, pedestrians and a recording, on one page."""
