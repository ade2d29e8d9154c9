"""A run is a folder: settings, weights, records, and the processes that fill it."""

from torchmcl.runs.files import atomic, locked, make_folder, read_json, sweep, write_json, write_text
from torchmcl.runs.folder import RunFolder
from torchmcl.runs.records import Record

__all__ = [
    "Record",
    "RunFolder",
    "atomic",
    "locked",
    "make_folder",
    "read_json",
    "sweep",
    "write_json",
    "write_text",
]
