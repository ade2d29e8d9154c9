"""One self-contained page for one recording: sound, map, timeline and downloads, without a server."""

import base64
import html
import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from torchmcl.web.limits import media_type

__all__ = ["recording_page"]

TYPES = {
    ".csv": "text/csv",
    ".json": "application/json",
    ".jsonl": "application/x-ndjson",
    ".png": "image/png",
    ".txt": "text/plain",
}


def recording_page(view: dict[str, Any], playback: Path, downloads: Sequence[Path]) -> str:
    """The page of a localized recording.

    Args:
        view: What is drawn, as `torchmcl.web.view.recording_view` makes it.
        playback: A stereo sound file that browsers play.
        downloads: Output files that the page offers.

    Returns:
        HTML that loads nothing.
    """
    static = files("torchmcl.web") / "static"
    links = " ".join(
        f'<a download="{html.escape(path.name)}" href="{_data(path)}">{html.escape(path.name)}</a>'
        for path in downloads
    )
    name = html.escape(str(view["name"]))
    # "<" inside of the data must not end the script
    data = json.dumps(view, separators=(",", ":")).replace("<", "\\u003c")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name}</title>
<link rel="icon" href="data:,">
<style>{(static / "style.css").read_text(encoding="utf-8")}</style>
</head>
<body>
<header><h1>{name}</h1><p class="soft">Where the sounds come from, by torchmcl.</p></header>
<main>
<div id="view"></div>
<h2>Download</h2>
<div class="row left">{links}</div>
</main>
<script>{(static / "viewer.js").read_text(encoding="utf-8")}
const RESULT = {data};
const viewer = new Viewer(document.getElementById("view"), RESULT, "{_data(playback)}");
</script>
</body>
</html>
"""


def _data(path: Path) -> str:
    return f"data:{media_type(path)};base64,{base64.b64encode(path.read_bytes()).decode()}"
