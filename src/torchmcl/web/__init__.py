"""The page for people with a recording, a table or tracks: a server, and pages that need none."""
