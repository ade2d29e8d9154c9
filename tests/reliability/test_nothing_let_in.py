"""Runs, settings and recordings from elsewhere: nothing in them is executed, and they cost little memory."""

import json
import os
import pickle
import re
import resource
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
import yaml
from safetensors.torch import load_file, save_file

from torchmcl.audio.datasets import read_dataset, read_recording
from torchmcl.audio.datasets.sound import open_sound, read_header
from torchmcl.audio.localizer import Localizer
from torchmcl.errors import UserError
from torchmcl.experiments.compose import compose_config
from torchmcl.experiments.saved import load_network, read_metrics
from torchmcl.experiments.train import evaluate_run, prepare, train

HEADER = "sound_event_recording,start_time,end_time,ele,azi,dist"


class Bomb:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, trace):
        self.trace = str(trace)

    def __reduce__(self):
        return os.mkdir, (self.trace,)


@pytest.fixture
def trace(tmp_path):
    """What must not exist when the test ends; the bomb itself is tried first, so that the test can fail."""
    probe = tmp_path / "probe"
    pickle.loads(pickle.dumps(Bomb(probe)))
    assert probe.exists()
    path = tmp_path / "trace"
    yield path
    assert not path.exists(), "a planted program was executed"


@pytest.fixture(scope="module")
def finished(scenes, tmp_path_factory):
    """The files of a finished run, as bytes."""
    words = [
        "scale=smoke", "trainer.threads=1", "trainer.accelerator=cpu", f"data.folder={scenes}",
        f"run={tmp_path_factory.mktemp('finished') / 'run'}", "training.epochs=1",
    ]  # fmt: skip
    folder = train(compose_config(words), progress=False)
    return {
        name: (folder / name).read_bytes() for name in ("settings.json", "config.json", "model.safetensors")
    }


@pytest.fixture
def foreign(finished, tmp_path):
    """A copy of a finished run that somebody else may have tampered with."""
    folder = tmp_path / "foreign"
    folder.mkdir()
    for name, content in finished.items():
        (folder / name).write_bytes(content)
    return folder


def as_pickle(bomb):
    return pickle.dumps(bomb)


def as_torch(bomb):
    path = Path(bomb.trace).with_suffix(".pt")
    torch.save({"state_dict": {}, "callbacks": bomb}, path)
    return path.read_bytes()


def as_old_torch(bomb):
    path = Path(bomb.trace).with_suffix(".pt")
    torch.save({"state_dict": bomb}, path, _use_new_zipfile_serialization=False)
    return path.read_bytes()


@pytest.mark.parametrize("form", [as_pickle, as_torch, as_old_torch])
def test_weights_that_are_a_pickle(form, foreign, trace):
    (foreign / "model.safetensors").write_bytes(form(Bomb(trace)))
    with pytest.raises(UserError, match=r"model\.safetensors: "):
        load_network(foreign)


@pytest.mark.parametrize("form", [as_pickle, as_torch, as_old_torch])
def test_a_checkpoint_that_is_a_pickle(form, smoke, tmp_path, trace):
    prepare(tmp_path / "run", compose_config(smoke("run")))
    (tmp_path / "run" / "last.ckpt").write_bytes(form(Bomb(trace)))
    with pytest.raises(UserError, match=r"last\.ckpt: is not a checkpoint of this program; remove it"):
        train(compose_config(smoke("run")), progress=False)
    assert (tmp_path / "run" / "last.ckpt").exists()


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"PK\3\4" + b"\0" * 100, b"(dp0\n."])
def test_a_checkpoint_that_is_rubbish(content, smoke, tmp_path):
    prepare(tmp_path / "run", compose_config(smoke("run")))
    (tmp_path / "run" / "last.ckpt").write_bytes(content)
    with pytest.raises(UserError, match=r"last\.ckpt: is not a checkpoint of this program; remove it"):
        train(compose_config(smoke("run")), progress=False)


YAML = [
    "!!python/object/apply:os.mkdir ['{trace}']",
    "!!python/object/new:os.mkdir ['{trace}']",
    "method: !!python/object/apply:os.mkdir ['{trace}']",
    "method: {{name: !!python/object/apply:subprocess.check_call [['mkdir', '{trace}']]}}",
    "method: !!python/name:os.mkdir",
    "method: !!python/module:os",
]


@pytest.mark.parametrize("text", YAML)
def test_settings_with_programs_in_yaml(text, foreign, trace):
    old(foreign, text.format(trace=trace))
    with pytest.raises(UserError, match=r"config\.yaml: could not determine a constructor"):
        load_network(foreign)


def settings(foreign):
    return json.loads((foreign / "settings.json").read_text())


def rewrite(foreign, plain):
    (foreign / "settings.json").write_text(json.dumps(plain))


def old(foreign, text):
    """As in version 0.1, whose settings are YAML."""
    (foreign / "settings.json").unlink()
    (foreign / "config.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())


@pytest.mark.parametrize(
    "change",
    [
        lambda plain, trace: plain | {"_target_": "os.mkdir", "_args_": [trace]},
        lambda plain, trace: plain | {"method": plain["method"] | {"_target_": "os.mkdir"}},
        lambda plain, trace: plain | {"method": plain["method"] | {"assign": "os.mkdir"}},
        lambda plain, trace: plain | {"method": plain["method"] | {"kind": "torchmcl.losses.mcl_loss"}},
        lambda plain, trace: plain | {"training": plain["training"] | {"schedule": f"os.mkdir('{trace}')"}},
        lambda plain, trace: plain | {"hydra": {"run": {"dir": trace}}},
        lambda plain, trace: plain | {"seed": "${oc.env:HOME}"},
        lambda plain, trace: (
            plain | {"training": plain["training"] | {"epochs": "${oc.create:${oc.env:HOME}}"}}
        ),
        lambda plain, trace: plain | {"method": plain["method"] | {"scores": "os.mkdir"}},
        lambda plain, trace: plain | {"head": plain["head"] | {"output": "os.mkdir"}},
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_settings_cannot_name_what_is_imported(change, foreign, trace):
    plain = change(settings(foreign), str(trace))
    rewrite(foreign, plain)
    with pytest.raises(UserError):
        load_network(foreign)
    old(foreign, yaml.safe_dump(plain))
    with pytest.raises(UserError):
        load_network(foreign)


@pytest.mark.parametrize(
    "words",
    [
        ["method._target_=os.mkdir"], ["+method._target_=os.mkdir"], ["_target_=os.mkdir"],
        ["hydra.run.dir=trace"], ["hydra/launcher=basic"], ["method=../../../../etc/passwd"],
        ["method.assign=os.mkdir"], ["method.kind=os.mkdir"], ["--config-dir=/tmp"], ["seed=${oc.env:HOME}"],
    ],
)  # fmt: skip
def test_words_cannot_name_what_is_imported(words):
    with pytest.raises(UserError):
        compose_config(words)


@pytest.mark.parametrize("secret", ["${oc.env:SECRET}", "\\x24{oc.env:SECRET}", "\\u0024{oc.env:SECRET}"])
@pytest.mark.parametrize("key", ["run", "data.name", "scale"])
def test_secrets_of_the_environment_do_not_enter_a_run(secret, key, foreign, monkeypatch):
    monkeypatch.setenv("SECRET", "hunter2")
    plain = settings(foreign)
    group, _, name = key.rpartition(".")
    (plain[group] if group else plain)[name] = "PLACE"
    text = yaml.safe_dump(plain).replace("PLACE", f'"{secret}"')
    old(foreign, text)
    with pytest.raises(UserError, match=rf"config\.yaml: {key} is .*, settings are plain values") as caught:
        evaluate_run(foreign)
    assert "hunter2" not in str(caught.value)
    assert not (foreign / "metrics.json").exists()


BOMBS = {
    "aliases": "a: &a [x]\nb: [" + ", ".join(["*a"] * 9) + "]",
    "nested aliases": "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]",
    "merge keys": "a: &a {x: 1}\nb: {<<: *a}",
    "recursive anchor": "&a [*a]",
    "recursive mapping": "a: &a {b: *a}",
    "a long string": "run: " + "x" * 10_000_000,
    "deep": "[" * 5000,
    "deep mappings": "\n".join("  " * depth + "a:" for depth in range(50)),
    "many values": "network: {pools: [" + "1, " * 5000 + "]}",
    "a long number": "seed: " + "9" * 5000,
    "a date": "seed: 2020-01-01",
    "bytes": "seed: !!binary aGVsbG8=",
    "a list as a key": "? [1, 2]\n: 3",
    "two documents": "seed: 1\n---\nseed: 2",
    "not UTF-8": b"\xff\xfe",
    "null bytes": b"seed: 1\0",
    "empty": "",
    "a list": "[]",
}


@pytest.mark.parametrize("kind", BOMBS)
def test_files_of_settings_that_are_none_are_refused_at_once(kind, foreign):
    old(foreign, BOMBS[kind])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    with pytest.raises(UserError, match=r"config\.yaml: ") as caught:
        load_network(foreign)
    assert len(str(caught.value)) < 500
    assert "\n" not in str(caught.value)
    assert time.process_time() - started < 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024, "64 MB"


@pytest.mark.parametrize("key", ["folder", "cache"])
def test_a_foreign_run_makes_no_folders(key, foreign, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plain = settings(foreign)
    plain["data"]["folder"] = None if key == "cache" else str(tmp_path / "outside" / "scenes")
    plain["data"]["cache"] = str(tmp_path / "outside")
    rewrite(foreign, plain)
    with pytest.raises(UserError, match="no such folder"):
        evaluate_run(foreign)
    assert not (tmp_path / "outside").exists()
    assert not (tmp_path / "data").exists()


def described(foreign, **changes):
    values = json.loads((foreign / "config.json").read_text()) | changes
    (foreign / "config.json").write_text(json.dumps(values))


def test_a_network_for_another_sample_rate(foreign):
    described(foreign, sample_rate=8000)
    with pytest.raises(UserError, match=r"its network takes sound at 8000 Hz, its data are at \d+ Hz"):
        evaluate_run(foreign)


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "null", "{", "NaN", '{"sample_rate": 1e99, "slots": 3}',
             '{"sample_rate": "x", "slots": 3}',
             '{"sample_rate": 16000, "slots": -1}', '{"sample_rate": 16000, "slots": 1000000000000}',
             '{"sample_rate": 0, "slots": 3}', "[" * 100000, '{"method": "' + "x" * 100000 + '"}'],
)  # fmt: skip
def test_a_description_of_no_network(text, foreign):
    (foreign / "config.json").write_text(text)
    with pytest.raises(UserError, match=r"config\.json: "):
        load_network(foreign)
    with pytest.raises(UserError, match=r"config\.json: "):
        Localizer.from_pretrained(foreign)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"filters": 10**9}, "filters is 1000000000, must be a whole number from 1 to 1024"),
        ({"filters": True}, "filters is True, must be a whole number"),
        ({"units": 2.0}, "units is 2.0, must be a whole number"),
        ({"hypotheses": None}, "hypotheses is None, must be a whole number"),
        ({"pools": [0]}, "pools is"),
        ({"pools": "x"}, "pools is 'x', must be a list"), ({"pools": [4] * 99}, "pools is"),
        ({"content": "os.mkdir"}, "content is 'os.mkdir', must be one of"),
        ({"scores": ["sigmoid"]}, "scores is"), ({"architecture": "Other"}, "architecture is 'Other'"),
        ({"_target_": "os.mkdir"}, "'_target_' is not a key"),
        ({"units": 2048, "layers": 32}, "parameters, must be at most 200,000,000"),
        ({"stride": 7}, "network: stride is 7, must divide nfft"),
        ({"method": "\x1b[2J"}, "method is"),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.usefixtures("unchecked")
def test_values_of_a_description(changes, sentence, foreign):
    described(foreign, **changes)
    with pytest.raises(UserError, match=r"config\.json: .*" + re.escape(sentence)):
        Localizer.from_pretrained(foreign)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("head.head.projection.weight", lambda value: value * float("nan")),
        ("head.head.projection.bias", lambda value: value + float("inf")),
        ("recurrence.weight_hh_l0", lambda value: value + 1e30),
        ("convolutions.0.1.running_var", lambda value: value - 1e3),
        ("norm.weight", lambda value: value.to(torch.int8)),
        ("norm.weight", lambda value: value.to(torch.complex64)),
        ("norm.weight", lambda value: value.double()),
        ("norm.weight", lambda value: value[:1]),
        ("norm.weight", lambda value: None),
    ],
)
def test_weights_that_cannot_be_right(name, change, foreign):
    path = foreign / "model.safetensors"
    weights = load_file(path)
    weights[name] = change(weights[name])
    save_file({key: value.contiguous() for key, value in weights.items() if value is not None}, path)
    with pytest.raises(UserError, match=rf"model\.safetensors: .*{re.escape(name)}"):
        load_network(foreign)


def test_a_run_of_version_0_1_is_updated(foreign, finished, scenes):
    (foreign / "config.json").write_text('{"sample_rate": 16000, "slots": 3, "train_seconds": 2.5}')
    plain = settings(foreign)
    del plain["data"]["augmentation"]
    plain["data"]["turning"] = False
    old(foreign, yaml.safe_dump(plain))
    with pytest.raises(
        UserError, match=r"config\.json: is of a run of version 0\.1; `torchmcl evaluate RUN`"
    ):
        Localizer.from_pretrained(foreign)
    assert evaluate_run(foreign).train_seconds == 2.5
    assert json.loads((foreign / "config.json").read_text()) == json.loads(finished["config.json"])
    assert settings(foreign) == json.loads(finished["settings.json"])
    Localizer.from_pretrained(foreign)


def test_metrics_of_version_0_1_are_read(foreign):
    evaluate_run(foreign)
    plain = json.loads((foreign / "metrics.json").read_text())
    before = read_metrics(foreign)
    (foreign / "metrics.json").write_text(json.dumps(plain | plain.pop("provenance")))
    assert read_metrics(foreign) == before
    half = {**plain["test"], "groups": {"D1": {"emd": plain["test"]["groups"]["D1"]["emd"]}}}
    for text in ("", "[]", "{}", "NaN", "[" * 9999, *(json.dumps(plain | {"test": t}) for t in ([], half))):
        (foreign / "metrics.json").write_text(text)
        with pytest.raises(UserError, match=r"metrics\.json: "):
            read_metrics(foreign)


@pytest.mark.parametrize(
    "change",
    [
        {"network": {"filters": 10**9}}, {"network": {"units": 10**9}}, {"method": {"hypotheses": 10**12}},
        {"method": {"hypotheses": -1}}, {"network": {"layers": 10**9}}, {"method": {"members": 10**9}},
        {"network": {"nfft": 10**12}}, {"network": {"stride": 0}}, {"network": {"pools": [0]}},
    ],
    ids=str,
)  # fmt: skip
def test_settings_that_would_fill_the_memory(change, foreign):
    plain = settings(foreign)
    for group, values in change.items():
        plain[group] |= values
    rewrite(foreign, plain)
    with pytest.raises(UserError):
        load_network(foreign)


def test_weights_of_another_shape_are_refused(foreign, finished):
    plain = settings(foreign)
    plain["network"]["units"] = 16
    rewrite(foreign, plain)
    with pytest.raises(UserError, match=r"its settings and config\.json describe different networks"):
        evaluate_run(foreign)
    described(foreign, units=16)
    with pytest.raises(UserError, match=r"model\.safetensors: "):
        evaluate_run(foreign)
    assert (foreign / "model.safetensors").read_bytes() == finished["model.safetensors"]


def test_a_header_of_weights_that_announces_too_much(foreign):
    (foreign / "model.safetensors").write_bytes(struct.pack("<Q", 2**62) + b"{}")
    with pytest.raises(UserError, match=r"model\.safetensors: "):
        load_network(foreign)
    entry = {"x": {"dtype": "F32", "shape": [10**6, 10**6], "data_offsets": [0, 4 * 10**12]}}
    text = json.dumps(entry).encode()
    (foreign / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text)
    with pytest.raises(UserError, match=r"model\.safetensors: "):
        load_network(foreign)


def wav(path, *, frames=16, announced=None, channels=4, rate=16000, bits=16, tag=1, extra=b"", riff=None):
    """A WAV file whose header says what it likes."""
    block = channels * bits // 8
    size = frames * block if announced is None else announced * block
    form = struct.pack("<HHIIHH", tag, channels, rate, rate * block & 0xFFFFFFFF, block & 0xFFFF, bits)
    body = b"fmt " + struct.pack("<I", 16) + form + extra + b"data" + struct.pack("<I", size & 0xFFFFFFFF)
    content = body + b"\0" * (frames * block)
    path.write_bytes(b"RIFF" + struct.pack("<I", riff or len(content) + 4) + b"WAVE" + content)
    return path


HOSTILE = {
    "10^9 frames announced": ({"announced": 10**9}, "truncated"),
    "the largest size": ({"announced": 2**29 - 1}, "truncated"),
    "no samples": ({"frames": 0}, "has no samples"),
    "no channels": ({"channels": 0}, "0 channels"),
    "no rate": ({"rate": 0}, "at 0 Hz"),
    "a rate of 2^32 - 1": ({"rate": 2**32 - 1}, None),
    "a rate of 1": ({"rate": 1, "frames": 4000}, "announces 4000 s"),
    "65,535 channels": ({"channels": 65535, "frames": 1}, "Too many channels"),
    "a chunk of 4 GB": (
        {"extra": b"junk" + struct.pack("<I", 2**32 - 1)},
        "its header ends before the samples",
    ),
    "10,000 empty chunks": (
        {"extra": (b"junk" + struct.pack("<I", 0)) * 10**4},
        "its header ends before the samples",
    ),
    "an unknown coding": ({"tag": 0x4242}, "cannot be decoded"),
    "two bits": ({"bits": 2}, "truncated"),
    "an enormous RIFF": ({"riff": 2**32 - 1}, None),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_sound_is_read_or_refused_in_bounded_memory(kind, tmp_path):
    values, sentence = HOSTILE[kind]
    path = wav(tmp_path / "a.wav", **values)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if sentence is None:
        assert (
            open_sound(path, tmp_path / "cache").size == read_header(path).frames * read_header(path).channels
        )
    else:
        with pytest.raises(UserError, match=sentence):
            open_sound(path, tmp_path / "cache")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024, "64 MB"


@pytest.mark.parametrize(
    "content", [b"", b"R", b"RIFF", b"RIFF\0\0\0\0WAVE", b"fLaC", b"fLaC\0\0\0\x22", b"OggS", b"\0" * 4096]
)
def test_files_that_are_no_sound(content, tmp_path):
    for suffix in (".wav", ".flac"):
        path = tmp_path / f"a{suffix}"
        path.write_bytes(content)
        with pytest.raises(UserError, match=rf"a\{suffix}: "):
            open_sound(path, tmp_path / "cache")


def test_a_compressed_bomb_is_refused_by_its_header(tmp_path):
    """Two hours of silence in a few kilobytes."""
    path = tmp_path / "bomb.flac"
    with soundfile.SoundFile(path, "w", 8000, 4, "PCM_16", format="FLAC") as stream:
        for _ in range(121):
            stream.write(np.zeros((60 * 8000, 4), np.int16))
    assert path.stat().st_size < 2**20
    with pytest.raises(UserError, match="announces 7260 s, must be at most 3600 s"):
        open_sound(path, tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e38])
def test_samples_that_are_no_numbers(value, tmp_path):
    samples = np.zeros((100, 4), np.float32)
    samples[50] = value
    path = tmp_path / "a.wav"
    soundfile.write(path, samples, 16000, "FLOAT")
    if np.isfinite(value):
        assert open_sound(path, tmp_path / "cache")[50].tolist() == [32767] * 4
    else:
        with pytest.raises(UserError, match=r"a\.wav: sample 50 is no number"):
            open_sound(path, tmp_path / "cache")
        assert not list((tmp_path / "cache").glob("*.pcm"))


def describe(tmp_path, *rows):
    for folder in ("wav_ov1_split1_30db", "desc_ov1_split1"):
        (tmp_path / folder).mkdir(exist_ok=True)
    wav(tmp_path / "wav_ov1_split1_30db" / "train_0.wav", frames=16000)
    text = tmp_path / "desc_ov1_split1" / "train_0.csv"
    text.write_bytes("\n".join([HEADER, *rows]).encode("utf-8", "surrogateescape"))
    return text


@pytest.mark.parametrize(
    "name",
    ["../../../../etc/passwd", "/etc/passwd", "~/.ssh/id_rsa", "a\0b.wav", "file:///etc/passwd", "$(mkdir trace)",
     "`mkdir trace`", "=HYPERLINK(1)", "..\\..\\x", "|mkdir trace", "\u202egnp.exe", "x" * 5000, "%s%n",
     "{0.__class__}"],
)  # fmt: skip
def test_names_in_descriptions_are_only_names(name, tmp_path, monkeypatch):
    """They label events; no file of that name is ever opened."""
    describe(tmp_path, f'"{name}",0.1,0.4,10,20,1')
    opened = []
    sys_open = Path.open
    monkeypatch.setattr(
        Path, "open", lambda self, *args, **kwargs: opened.append(self) or sys_open(self, *args, **kwargs)
    )
    [recording] = read_dataset(tmp_path).recordings
    assert recording.events[0].name == name
    assert all(tmp_path in path.parents for path in opened)
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (["a" * (1 << 20)], "bytes long, must be at most"),
        (['"' + "a" * 200000 + '",0,1,0,0,1'], "is not CSV"),
        (["a.wav,1e999,2,0,0,1"], "must be a finite number"),
        (["a.wav,0," + "9" * 400 + ",0,0,1"], "must be a finite number"),
        (["a.wav,0x1,2,0,0,1"], "must be a finite number"),
        (['"a.wav,0.1,0.4,10,20,1'], "columns, must be 6"),
        (["a.wav;0.1;0.4;10;20;1"], "1 columns, must be 6"),
        (["," * 100000], "columns, must be 6"),
        (["\udcff\udcfe,0.1,0.4,10,20,1"], "is not UTF-8"),
        (["a.wav,0.1,0.4,10,20,1"] * 2, "2 events sound"),
    ],
    ids=range(10),
)
def test_hostile_descriptions_are_refused(rows, sentence, tmp_path):
    describe(tmp_path, *rows)
    with pytest.raises(UserError, match=sentence):
        read_dataset(tmp_path)


def test_a_link_out_of_the_data_set_or_to_itself(tmp_path):
    text = describe(tmp_path)
    text.unlink()
    text.symlink_to(text)
    with pytest.raises(UserError, match=r"its description .* is missing"):
        read_dataset(tmp_path)
    loop = tmp_path / "loop.wav"
    loop.symlink_to(loop)
    with pytest.raises(UserError, match="no such file"):
        read_recording(loop)


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.wav")
    with pytest.raises(UserError, match=r"a\.wav: no such file"):
        read_recording(tmp_path / "a.wav")


def test_a_hostile_header_costs_no_memory_in_a_process_of_its_own(tmp_path):
    """256 MB beyond what the imports need are more than enough for 10^9 announced frames."""
    path = wav(tmp_path / "a.wav", announced=10**9)
    program = (
        "import resource; from torchmcl.audio.datasets import open_sound; from torchmcl.errors import UserError;"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize();"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, used + 2**28))\n"
        f"try: open_sound({str(path)!r})\n"
        "except UserError as error: print(error)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "truncated, 16 of" in ended.stdout
