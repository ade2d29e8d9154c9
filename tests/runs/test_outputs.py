"""Only our own earlier output is replaced."""

import pytest

from torchmcl.errors import UserError
from torchmcl.runs.outputs import LIST, claim_outputs


def test_own_files_are_replaced_and_those_of_a_person_are_not(tmp_path):
    (tmp_path / "notes.csv").write_text("precious")
    claim_outputs(tmp_path, ["a.csv", "a.json"])
    (tmp_path / "a.csv").write_text("first")
    claim_outputs(tmp_path, ["a.csv", "b.csv"])
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(
        UserError, match=r"notes\.csv: is there and was not written by this program; choose another"
    ):
        claim_outputs(tmp_path, ["c.csv", "notes.csv"])
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    claim_outputs(tmp_path, ["notes.csv"], overwrite=True)
    claim_outputs(tmp_path, ["notes.csv"])
    assert (tmp_path / "notes.csv").read_text() == "precious", "claiming writes nothing else"


def test_a_dangling_link_of_a_person_is_not_replaced(tmp_path):
    (tmp_path / "a.csv").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"a\.csv: is there"):
        claim_outputs(tmp_path, ["a.csv"])


@pytest.mark.parametrize("text", ["", "{}", "[1]", "[" * 9999])
def test_a_list_that_is_none_is_one_sentence(text, tmp_path):
    (tmp_path / LIST).write_text(text)
    with pytest.raises(UserError, match="torchmcl-files"):
        claim_outputs(tmp_path, ["a.csv"])
