"""The command line: help for everybody, and one sentence for each mistake."""

import io
import re
import signal
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import pytest
import torch

from torchmcl import __version__, cli
from torchmcl.cli.doctor import OPTIONAL, report
from torchmcl.cli.options import say
from torchmcl.errors import UserError

ROOT = Path(__file__).parents[2]

COMMANDS = [command.name for command in cli.app.registered_commands]


def run(monkeypatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["torchmcl", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code or 0


def test_every_function_of_every_group_is_a_command():
    functions = [function for group in cli.GROUPS for function in group.COMMANDS]
    assert [function.__name__.replace("_", "-") for function in functions] == COMMANDS
    assert len(set(COMMANDS)) == len(COMMANDS)
    audio = {"simulate", "inspect", "localize", "train", "evaluate", "study"}
    assert {"toy", "toy-outliers", "doctor"} | audio <= set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_and_says_what_is_written_and_where_to_read_more(command, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    assert run(monkeypatch, command, "--help") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"Example: torchmcl {command}" in said
    assert " Writes " in said
    page = re.search(r"Read more: (docs/\S+\.md)", said)
    assert page
    assert (ROOT / page[1]).exists()


def test_alone_it_shows_its_help(monkeypatch, capsys):
    assert run(monkeypatch) == 0
    shown = capsys.readouterr().out
    assert all(command in shown for command in COMMANDS)


def test_version(monkeypatch, capsys):
    assert run(monkeypatch, "--version") == 0
    assert capsys.readouterr().out == f"torchmcl {__version__}\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nonsense"], "No such command 'nonsense'."),
        (["simulate"], "Missing argument 'out'."),
        (["simulate", "x", "--nope", "1"], "No such option: --nope"),
        (["simulate", "x", "--workers", "many"], "Invalid value for '--workers'"),
        (["simulate", "x", "--snr", "1000"], "snr is 1000, it must be between 0 and 100"),
        (
            ["simulate", "x", "--condition", "wet"],
            "condition is 'wet', it must be one of anechoic, reverberant, mixed",
        ),
        (["inspect", "nowhere"], "nowhere: no such file or folder"),
        (["toy", "--preset", "fast"], "--preset must be one of paper, tuned, got 'fast'"),
        (["train", "method=rmclx"], "method=rmclx: did you mean rmcl?"),
        (["train", "method"], "method: a setting is written key=value"),
        (["study", "table1", "--on", "slurm"], "--on is 'slurm', must be local or ray"),
        (
            ["study", "table1", "--address", "head:6379"],
            "--address is of a Ray cluster: say --on ray as well",
        ),
        (["study", "table1", "--workers", "0"], "Invalid value for '--workers'"),
        (["train", "training.epochs=0"], "training.epochs is 0, must be 1 to 1e+06"),
        (["train", "training.epochs=many"], "training.epochs: Value 'many' of type 'str'"),
        (["train", "training.learning_rate=nan"], "training.learning_rate is nan, must be 0 to 1000"),
        (["train", "training.batch_size=0"], "training.batch_size is 0, must be 1 to 1e+06"),
        (["train", "training.schedule=linear"], "training.schedule: Invalid value 'linear', expected one of"),
        (["train", "trainer.devices=0"], "trainer.devices is 0, must be 1 to 1024"),
        (["train", "trainer.threads=0"], "trainer.threads is 0, must be 1 to 4096"),
        (["train", "seed=-1"], "seed is -1, must be 0 to 2.14748e+09"),
        (["train", "method.hypotheses=0"], "method.hypotheses is 0, must be 1 to 10000"),
        (["train", "method.members=0"], "method.members is 0, must be 1 to 1000"),
        (["train", "network.pools=[]"], "network.pools has 0 entries, must be 1 to 10"),
        (["train", "network.filters=99999"], "network.filters is 99999, must be 1 to 1024"),
        (["train", "network.pools=3"], "network.pools: Invalid value assigned"),
        (["train", "scale=huge"], "scale=huge: scale is one of"),
        (["train", "head=cube"], "head=cube: head is one of angles, sphere"),
        (["train", "method="], "method=: method is one of"),
        (["train", "="], "=: no setting ; settings are"),
        (["train", "a=b=c"], "a=b=c: no setting a; settings are"),
        (["train", "hydra.run.dir=x"], "hydra.run.dir=x: no setting hydra.run.dir"),
        (["train", "method._target_=os.mkdir"], "method._target_=os.mkdir: no setting method._target_"),
        (["train", "+method.more=1"], "+method.more=1: a setting is written key=value"),
        (["evaluate", ""], ".: no finished run, settings.json is missing"),
        (["inspect", "/dev/null"], "/dev/null: "),
        (["simulate", "x", "--recordings", "0"], "recordings is 0, it must be"),
        (["simulate", "x", "--duration", "nan"], "duration is nan, it must be"),
        (["simulate", "x", "--grid", "-1"], "grid is -1, it must be"),
        (["simulate", "x", "--layout", "y"], "layout is 'y', it must be"),
        (["simulate", "x", "--events", "nowhere"], "nowhere: "),
        (["simulate", "x", "--sample-rate", "0"], "sample_rate is 0, it must be"),
        (["simulate", "x", "--workers", "0"], "workers is 0, must be at least 1"),
        (["simulate", "/dev/null/x"], "/dev/null/x: "),
        (["toy", "--seeds", "0"], "--seeds must be"),
        (["toy", "--seed", "-1"], "--seed must be 0 to 4294967295, got -1"),
        (["evaluate", "nowhere"], "nowhere: no finished run, settings.json is missing"),
        (["localize", "nowhere.wav"], "nowhere.wav: no such file"),
        (["study", "table9"], "no study table9; there are table1, table2, table3, table4"),
        (["study", "table1", "method=rmcl"], "method and run are chosen by the study"),
    ],
)
def test_a_mistake_is_one_sentence(words, sentence, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, *words) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"torchmcl: {sentence}")
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device", "runs/x")])
def test_the_machine_is_no_traceback_either(error, monkeypatch, capsys):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(cli, "app", fail)
    assert run(monkeypatch) == (130 if error is KeyboardInterrupt else 2)
    assert (
        "interrupted" in (said := capsys.readouterr().err)
        or said == "torchmcl: runs/x: No space left on device\n"
    )


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture
def signals():
    """As a command finds them; afterwards as they were."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("signals")
@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_every_signal_is_one_sentence_and_further_ones_change_nothing(number, monkeypatch, capsys):
    said = cli._say

    def interrupted(*args, **kwargs):
        signal.raise_signal(number)
        raise AssertionError

    def say_disturbed(sentence):
        signal.raise_signal(number)
        said(sentence)

    monkeypatch.setattr(cli, "app", interrupted)
    monkeypatch.setattr(cli, "_say", say_disturbed)
    assert run(monkeypatch) == 128 + number
    assert capsys.readouterr().err == "torchmcl: interrupted; the same command continues where it stopped\n"


@pytest.mark.usefixtures("signals")
@pytest.mark.parametrize("error", [None, KeyboardInterrupt(), UserError("wrong")], ids=repr)
def test_signals_while_the_interpreter_ends_change_nothing(error, monkeypatch):
    def end(*args, **kwargs):
        if error is not None:
            raise error

    ends = []
    monkeypatch.setattr(cli, "app", end)
    monkeypatch.setattr("atexit.register", lambda *end: ends.append(end))
    run(monkeypatch)
    for function, *arguments in ends:
        function(*arguments)
    for number in SIGNALS:
        signal.raise_signal(number)


@pytest.mark.usefixtures("signals")
def test_a_command_that_nohup_started_goes_on(monkeypatch):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    monkeypatch.setattr(cli, "app", lambda *args, **kwargs: signal.raise_signal(signal.SIGHUP))
    assert run(monkeypatch) == 0


def test_a_closed_output_is_one_sentence(monkeypatch, capsys):
    def fail(*args, **kwargs):
        try:
            raise BrokenPipeError
        except BrokenPipeError:
            sys.exit(1)  # as typer does

    monkeypatch.setattr(cli, "app", fail)
    assert run(monkeypatch) == 2
    assert capsys.readouterr().err == "torchmcl: the standard output was closed\n"


class Full(io.TextIOBase):
    def write(self, text):
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize(("error", "code"), [(UserError("x"), 2), (KeyboardInterrupt, 130)])
def test_a_full_error_output_changes_no_exit_code(error, code, monkeypatch):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(cli, "app", fail)
    monkeypatch.setattr(sys, "stderr", Full())
    assert run(monkeypatch) == code


@pytest.mark.parametrize("error", [AttributeError("pos"), OSError("closed"), UserError("x: is half written")])
def test_an_error_of_cleaning_up_does_not_hide_the_interruption(monkeypatch, capsys, error):
    def fail(*_, **__):
        try:
            raise KeyboardInterrupt
        finally:
            raise error

    monkeypatch.setattr(cli, "app", fail)
    assert run(monkeypatch) == 130
    assert "interrupted" in capsys.readouterr().err


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_unicode_is_no_traceback(encoding, monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    assert run(monkeypatch, "--help") == 0
    print("┃")


def test_the_doctor_tells_versions_threads_and_parts(monkeypatch, capsys):
    assert run(monkeypatch, "doctor") == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"torchmcl {__version__}"
    assert f"torch {torch.__version__}" in said
    assert any(f"threads of torch {torch.get_num_threads()}" in line for line in said)
    for part in OPTIONAL:
        assert any(line.startswith((f"{part.module} ", f"missing: {part.remedy}")) for line in said)


def test_the_doctor_knows_every_extra():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    needed = {
        (re.split("[>=]", each)[0].replace("-", "_"), extra)
        for extra, parts in extras.items()
        if extra not in ("dev", "docs")
        for each in parts
    }
    known = {part.module: part.extra for part in OPTIONAL}
    assert set(known.items()) <= needed
    assert set(known) == {module for module, _ in needed}


@pytest.mark.parametrize("part", OPTIONAL, ids=lambda part: part.module)
def test_the_doctor_says_how_to_get_a_missing_part(part, monkeypatch):
    monkeypatch.setitem(sys.modules, part.module, None)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert any(needed.replace("-", "_").startswith(f"{part.module}>=") for needed in extras[part.extra])
    assert f"missing: {part.purpose} needs {part.module}: pip install 'torchmcl[{part.extra}]'" in report()


def without(module: str, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A command in a process in which that module cannot be imported."""
    program = f"import sys; sys.modules[{module!r}] = None; from torchmcl.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, *words], cwd=cwd, capture_output=True, text=True, check=False
    )


def test_a_missing_part_is_one_sentence(tmp_path):
    ended = without("soundfile", "simulate", "scenes", cwd=tmp_path)
    assert ended.returncode == 2
    assert ended.stderr == (
        "torchmcl: reading and writing sound needs soundfile: pip install 'torchmcl[audio]'\n"
    )
    assert list(tmp_path.iterdir()) == []


DEFECTS = [
    (
        ModuleNotFoundError("No module named 'nothing'", name="nothing"),
        "ModuleNotFoundError: No module named",
    ),
    (ValueError("two\nlines"), "ValueError: two lines; please report it, TORCHMCL_TRACEBACK=1 shows where"),
    (KeyError("name"), "this is a defect of torchmcl, or a file that it does not expect: KeyError: 'name'"),
    (MemoryError(), "the memory of this machine is not enough"),
    (RecursionError("maximum"), "nested too deeply"),
]


@pytest.mark.parametrize(("error", "sentence"), DEFECTS, ids=lambda each: type(each).__name__)
def test_a_defect_is_one_sentence_and_shows_where_if_asked(error, sentence, monkeypatch, capsys):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(cli, "app", fail)
    assert run(monkeypatch, "doctor") == 2
    said = capsys.readouterr().err
    assert said.startswith("torchmcl: ")
    assert sentence in said
    assert said.count("\n") == 1
    monkeypatch.setenv("TORCHMCL_TRACEBACK", "1")
    with pytest.raises(type(error)):
        cli.main()


@pytest.mark.filterwarnings("default")
def test_a_warning_is_one_sentence(monkeypatch, capsys):
    monkeypatch.setattr(
        cli, "_run", lambda received: warnings.warn("few rows", UserWarning, stacklevel=1) or 0
    )
    with pytest.raises(SystemExit):
        cli.main()
    assert capsys.readouterr().err == "torchmcl: few rows\n"


def test_a_path_with_escapes_is_printed_as_text(capsys):
    say("\x1b[31mred\x07\n[bold]größe\u202e")
    say("wrong\r", error=True)
    printed = capsys.readouterr()
    assert printed.out == "\\x1b[31mred\\x07\\n[bold]größe\\u202e\n"
    assert printed.err == "wrong\\r\n"
