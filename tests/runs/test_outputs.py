"""Only our own earlier output is replaced."""

import pytest

from torchmcl.errors import UserError
from torchmcl.runs.outputs import LIST, claim_outputs, own_file


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


def test_a_file_of_a_person_is_replaced_only_if_asked(tmp_path):
    path, data = tmp_path / "a.csv", tmp_path / "data.csv"
    for name in ("a.csv", "data.csv"):
        (tmp_path / name).write_text("precious")
    with pytest.raises(UserError, match=r"a\.csv: is there.*--overwrite"), own_file(path):
        pass
    with (
        pytest.raises(UserError, match=r"data\.csv: is read as well"),
        own_file(data, overwrite=True, inputs=[data]),
    ):
        pass
    assert [each.read_text() for each in (path, data)] == ["precious"] * 2
    assert not (tmp_path / LIST).exists()
    for text, overwrite in (("first", True), ("second", False)):
        with own_file(path, overwrite=overwrite) as temporary:
            temporary.write_text(text)
        assert path.read_text() == text
    with (
        pytest.raises(UserError, match="keeps the names of its files"),
        own_file(tmp_path / LIST, overwrite=True),
    ):
        pass
    assert sorted(each.name for each in tmp_path.iterdir()) == [LIST, "a.csv", "data.csv"]


def test_a_failure_claims_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError), own_file(tmp_path / "a.csv"):
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())


def test_names_are_claimed_before_the_work_or_not_at_all(tmp_path):
    (tmp_path / "in.csv").write_text("mine")
    for name, more, message in (
        ("x" * 300, {}, "File name too long"),
        ("in.csv", {"inputs": [tmp_path / "in.csv"], "overwrite": True}, r"in\.csv: is read as well"),
    ):
        for folder in (tmp_path / "new", tmp_path):
            if (folder / "in.csv").exists() or not more:
                with pytest.raises((OSError, UserError), match=message):
                    claim_outputs(folder, [name], **more)
                assert not (folder / LIST).exists()
    assert (tmp_path / "in.csv").read_text() == "mine"


def test_the_list_is_no_output(tmp_path):
    with pytest.raises(UserError, match="is where this program keeps the names of its files"):
        claim_outputs(tmp_path, ["a.csv", LIST], overwrite=True)
    assert not (tmp_path / LIST).exists()
