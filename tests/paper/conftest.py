"""Small made data in the formats of the originals, and experiments small enough for tests."""

import io
import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

from paper import harmonic_motion, numbers, ppg, runs, search, troika, weather, wristband
from paper.__main__ import main
from paper.models import Hyperparameters

SMALL = Hyperparameters(1e-2, 4, 4, 1, True)


def _write_archive(folder, name, length=20):
    """40 slow and fast waves in two channels, as files of the UEA archive; two series are there
    twice."""
    random, speed = np.random.default_rng(0), np.arange(40) % 2
    phase = random.uniform(0, 6, (40, 2, 1))
    waves = np.sin((0.3 + speed[:, None, None]) * np.arange(length) + phase)
    waves = (waves + 0.1 * random.normal(size=waves.shape)).astype(np.float32)
    waves[3], waves[-1] = waves[5], waves[1]
    (folder / name).mkdir(parents=True, exist_ok=True)
    head = (
        f"@problemName {name}\n@timeStamps false\n@missing false\n@univariate false\n"
        f"@dimensions 2\n@equalLength true\n@seriesLength {length}\n@classLabel true slow fast\n"
        "@data\n"
    )
    for part, chosen in (("TRAIN", slice(0, 20)), ("TEST", slice(20, None))):
        lines = [
            ":".join(",".join(map(repr, map(float, c))) for c in series) + f":{('slow', 'fast')[k]}"
            for series, k in zip(waves[chosen], speed[chosen], strict=True)
        ]
        (folder / name / f"{name}_{part}.ts").write_text(head + "\n".join(lines) + "\n")
    return waves, speed


@pytest.fixture(scope="session")
def write_archive():
    """(folder, name, ...) to files of the UEA archive; gives values and classes."""
    return _write_archive


class _Python2(pickle._Pickler):  # pyright: ignore[reportPrivateUsage]
    """Pickles text and bytes as Python 2 does."""

    dispatch = dict(pickle._Pickler.dispatch)  # noqa: RUF012 # pyright: ignore[reportPrivateUsage]

    def save_string(self, text):
        data = text if isinstance(text, bytes) else text.encode("latin1")
        self.write(b"T" + struct.pack("<i", len(data)) + data)

    dispatch[str] = dispatch[bytes] = save_string


@pytest.fixture(scope="session")
def python2_pickle():
    """A value to the bytes that Python 2 pickled it to."""

    def dump(value):
        file = io.BytesIO()
        _Python2(file, protocol=2).dump(value)
        return file.getvalue()

    return dump


@pytest.fixture(scope="session")
def write_recordings(python2_pickle):
    """(folder, subjects, labels) to subjects' files; gives what they hold."""

    def write(folder, subjects, labels):
        beside = {"questionnaire": {"AGE": 34, "Gender": " m"}, "rpeaks": np.arange(20)}
        contents = [
            {**wristband.recording(subject, minutes=(labels + 3) / 30), **beside}
            for subject in range(1, subjects + 1)
        ]
        for subject, content in enumerate(contents, start=1):
            place = folder / "PPG_FieldStudy" / f"S{subject}"
            place.mkdir(parents=True, exist_ok=True)
            (place / f"S{subject}.pkl").write_bytes(python2_pickle(content))
        return contents

    return write


@pytest.fixture(scope="session")
def write_weather():
    """(folder, hours) to a file like WTH.csv; gives its numbers."""

    def write(folder, hours):
        random = np.random.default_rng(0)
        time = np.arange(hours)[:, None]
        scale = np.arange(1, 13)
        values = scale * np.sin(2 * np.pi * time / 24 + scale) + 10 * scale
        values = (values + 0.1 * random.normal(size=values.shape)).round(3)
        names = ",".join(f"V{i}" for i in range(11)) + ",WetBulbCelsius"
        start = np.datetime64("2010-01-20T00")
        lines = ["date," + names]
        for hour, row in enumerate(values):
            date = (start + np.timedelta64(hour, "h")).item()
            written = f"{date.month}/{date.day}/{date.year} {date.hour}:00"
            lines.append(",".join([written, *map(repr, map(float, row))]))
        place = Path(folder) / "WTH"
        place.mkdir(parents=True, exist_ok=True)
        (place / "WTH.csv").write_text("\n".join(lines) + "\n")
        return values

    return write


@pytest.fixture
def small(monkeypatch):
    """Experiments with tiny models, tiny data and a handful of steps."""
    few = {name: runs.Protocol(4, 2) for name in runs.PROTOCOLS}
    monkeypatch.setattr(runs, "best", lambda data_set, model: SMALL)
    monkeypatch.setattr(runs, "PROTOCOLS", few)
    monkeypatch.setattr(search, "GRID", (SMALL, Hyperparameters(1e-3, 4, 4, 1, False)))
    monkeypatch.setattr(harmonic_motion, "CASES", (40, 8, 8))
    monkeypatch.setattr(harmonic_motion, "STEPS", 40)
    monkeypatch.setattr(harmonic_motion, "_SIZES", Hyperparameters(1e-2, 4, 4, 1, False))
    for module in (weather, troika):
        monkeypatch.setattr(module, "PROTOCOLS", few)
    monkeypatch.setattr(weather, "PAST", 12)
    monkeypatch.setattr(weather, "HORIZON", 6)
    monkeypatch.setattr(numbers, "SUBJECTS", 1)
    monkeypatch.setattr(ppg, "ANSWERS", 4)
    monkeypatch.setattr(ppg, "STRIDE", 2)


@pytest.fixture
def experiment(tmp_path, capsys):
    """Words of a command, with `data_dir` to (exit code, table or stdout, what was said)."""

    def run(name, *words, data_dir=None, code=0, out=tmp_path / "out"):
        words = [name, *words, "--out", out]
        words += ["--data-dir", data_dir] if data_dir else []
        try:
            ended = main([str(word) for word in words])
        except SystemExit as wrong:
            ended = wrong.code
        printed = capsys.readouterr()
        assert ended == code, printed.err
        return printed.out if code == 0 else printed.err

    run.out = tmp_path / "out"
    return run


@pytest.fixture(scope="session")
def real_data():
    """The directory of the real data sets, where there is one."""
    folder = os.environ.get("LINOSS_DATA")
    if not folder:
        pytest.skip("needs the real data sets: set LINOSS_DATA to their directory")
    return Path(folder)


@pytest.fixture
def trap(tmp_path):
    """A pickle's instruction that leaves a file behind if it is carried out, and that file."""
    mark = tmp_path / "carried out"

    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(mark),)

    return pickle.dumps(Trap(), protocol=2), mark
