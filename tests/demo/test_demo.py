"""The demonstration: its data, its doors and a page whose links all lead somewhere."""

import csv
import re

from rich.console import Console

from torchmcl.demo import run
from torchmcl.demo.data import TARGET, write_table, write_tracks
from torchmcl.demo.page import Door, index_page
from torchmcl.trajectories.tracks import read_tracks


def test_the_table_has_all_patients_and_the_target(tmp_path):
    write_table(tmp_path / "table.csv")
    rows = list(csv.DictReader((tmp_path / "table.csv").read_text().splitlines()))
    assert len(rows) == 442
    assert {TARGET, "bmi", "age"} <= set(rows[0])


def test_the_same_seed_gives_the_same_pedestrians_who_can_be_read(tmp_path):
    for name in ("one.txt", "two.txt"):
        write_tracks(tmp_path / name, seed=3)
    assert (tmp_path / "one.txt").read_bytes() == (tmp_path / "two.txt").read_bytes()
    read_tracks(tmp_path / "one.txt")


def test_every_link_of_the_page_leads_somewhere(tmp_path, monkeypatch):
    quick = {name: run.DOORS[name] for name in ("Pedestrians", "A recording")}
    monkeypatch.setattr(run, "DOORS", quick)
    page = run.demo(tmp_path, Console(quiet=True))
    links = re.findall(r'(?:href|src)="(?!data:)([^"]+)"', page.read_text())
    assert len(links) >= 6
    for link in links:
        assert (tmp_path / link).is_file(), link


def test_what_a_page_shows_is_text():
    page = index_page([Door("<b>", "a & b", "torchmcl <x>", "p.png", [("<i>", "l.html")])])
    assert "<b>" not in page
    assert "a &amp; b" in page
