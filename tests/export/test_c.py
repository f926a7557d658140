"""C99, compiled and fed a stream, against the library's stream."""

import os
import shutil
import subprocess

import numpy as np
import pytest

from linoss.export import write

COMPILER = shutil.which("cc") or shutil.which("gcc")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1"]

MAIN = """
#include <stdio.h>
#include "model.h"

int main(void) {
    static model_state state;
    float sample[model_CHANNELS + %d], answer[model_OUTPUTS];
    model_reset(&state);
    while (fread(sample, sizeof sample, 1, stdin) == 1) {
        model_step(&state, sample, answer%s);
        fwrite(answer, sizeof answer, 1, stdout);
    }
    fprintf(stderr, "%%zu %s", sizeof state%s);
    return 0;
}
"""


def compiled(folder, *, more=0, argument="", labels=False):
    texts = ("%s", ", model_classes[2]") if labels else ("", "")
    (folder / "main.c").write_text(MAIN % (more, argument, *texts))
    files = ["main.c", "model_weights.c"]
    subprocess.run([COMPILER, *STRICT, *files, "-lm", "-o", "model"], cwd=folder, check=True)

    def run(given):
        content = np.ascontiguousarray(given, np.float32).tobytes()
        done = subprocess.run([folder / "model"], input=content, capture_output=True, check=True)
        return np.frombuffer(done.stdout, np.float32).reshape(len(given), -1), done.stderr.decode()

    return run


def heard(estimator, samples, times=None):
    listen, times = estimator.stream(), [None] * len(samples) if times is None else times
    return np.stack([np.ravel(listen(*given)) for given in zip(samples, times, strict=True)])


@pytest.mark.parametrize(
    "options",
    [
        {"missing": 0.2, "time_channel": True, "num_blocks": 2},
        {
            "missing": 0.2,
            "time_channel": True,
            "patch": 5,
            "model_options": {"gelu": "tanh"},
            "pooling": "mean+max",
        },
        pytest.param({"norm": "layer"}, marks=pytest.mark.slow),
        {"mixer": "s5"},
    ],
    ids=["missing values", "patches", "layer norm", "s5"],
)
def test_a_stream_equals_the_library(estimators, tmp_path, options):
    classifier = estimators.classifier(**options)
    written = write(classifier, tmp_path / "model.h")
    run = compiled(tmp_path, labels=True)
    for seed in range(3):
        samples = estimators.cases(seed, 1, 40, missing=0.2)[0].T
        answers, told = run(samples)
        np.testing.assert_allclose(answers, heard(classifier, samples), atol=1e-5)
        assert told == f"{written.ram} très"


def test_numbers_at_every_step_equal_the_library(estimators, tmp_path):
    regressor = estimators.regressor(8)
    write(regressor, tmp_path / "model.h")
    samples = estimators.cases(1, 1)[0].T
    answers, expected = compiled(tmp_path)(samples)[0], heard(regressor, samples)
    np.testing.assert_allclose(answers, expected, atol=1e-5 * np.abs(expected).max())


def test_irregular_times_equal_the_library(estimators, tmp_path):
    classifier = estimators.classifier(missing=0.2, interval=0.5, scheme="exact")
    write(classifier, tmp_path / "model.h")
    samples, gaps = estimators.cases(4, 1, missing=0.2)[0].T, estimators.gaps(4, 1)[0]
    run = compiled(tmp_path, more=1, argument=", sample[model_CHANNELS]")
    answers, _ = run(np.column_stack([samples, gaps]))
    expected = heard(classifier, samples, np.cumsum(gaps.astype(float)))
    np.testing.assert_allclose(answers, expected, atol=1e-5)


@pytest.mark.filterwarnings("ignore:60 values are more than 1e6")
def test_untrained_oscillators_equal_the_library(estimators, oscillators, tmp_path):
    write(oscillators["causal"], tmp_path / "model.h")
    samples = estimators.cases(11, 1, 100)[0].T
    samples[40, 1] = 9.96921e36  # a fill value is missing
    beginnings = [samples[: n + 1].T for n in range(len(samples))]
    answers = compiled(tmp_path)(samples)[0]
    expected = oscillators["causal"].predict_proba(beginnings)
    np.testing.assert_allclose(answers, expected, atol=1e-4)


def test_forecasts_equal_the_library(estimators, tmp_path):
    """The last answers, of steps ahead, by a copy of the state: here, its end."""
    forecaster = estimators.forecaster()
    write(forecaster, tmp_path / "model.h")
    past = estimators.cases(8, 1, 16)[0].T
    run = compiled(tmp_path, argument=", isnan(sample[0]) != 0")
    answers, _ = run(np.concatenate([past, np.full((4, 2), np.nan)]))
    expected = forecaster.predict(4, data=past.astype(np.float64))
    np.testing.assert_allclose(answers[16:], expected, atol=1e-5 * np.abs(expected).max())


def test_weights_in_bytes_round_answers_little(estimators, tmp_path):
    classifier = estimators.classifier()
    whole = write(classifier, tmp_path / "whole" / "model.h")
    written = write(classifier, tmp_path / "model.h", int8=True)
    assert written.flash < 0.6 * whole.flash
    samples = estimators.cases(2, 1)[0].T
    answers, _ = compiled(tmp_path)(samples)
    np.testing.assert_allclose(answers, heard(classifier, samples), atol=0.02)


def test_flash_is_the_size_of_the_constants(estimators, tmp_path):
    written = write(estimators.classifier(), tmp_path / "model.h")
    command = [COMPILER, "-std=c99", "-c", "model_weights.c", "-o", "w.o"]
    subprocess.run(command, cwd=tmp_path, check=True)
    listed = subprocess.run(
        ["nm", "-S", "w.o"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    sizes = {line.split()[3]: int(line.split()[1], 16) for line in listed.stdout.splitlines()}
    assert sizes["model_weights"] == written.flash


SOAK = int(os.environ.get("LINOSS_SOAK", "1000000"))
LONG = """
#include <stdio.h>
#include "model.h"

int main(void) {
    static model_state state;
    float sample[model_CHANNELS], answer[model_OUTPUTS];
    uint32_t drawn = 1;
    for (long n = 0; n < %d; ++n) {
        for (int i = 0; i < model_CHANNELS; ++i) {
            drawn = drawn * 1664525u + 1013904223u;
            sample[i] = (drawn >> 8) / 16777216.0f;
        }
        model_step(&state, sample, answer);
    }
    for (int i = 0; i < model_OUTPUTS; ++i) printf("%%.9g ", (double)answer[i]);
    return 0;
}
"""


@pytest.mark.parametrize("kind", ["trained", "oscillators"])
def test_a_long_stream_keeps_its_precision(estimators, oscillators, tmp_path, kind):
    """In single and in double precision, and, for a million samples, the library's prediction.

    `LINOSS_SOAK=100000000 pytest tests/export/test_c.py -k long` runs 10^8 samples.
    """
    trained = estimators.classifier(hidden_size=4, state_size=4, time_channel=True)
    estimator = {"trained": trained, "oscillators": oscillators["causal"]}[kind]
    write(estimator, tmp_path / "model.h")
    (tmp_path / "main.c").write_text(LONG % SOAK)
    names = [f"-D{name}f={name}" for name in ("exp", "erf", "tanh", "fmax", "fmin", "sqrt", "log")]
    answers = []
    for options in ([], ["-Dfloat=double", *names]):
        command = [COMPILER, "-std=c99", "-O2", *options, "main.c", "model_weights.c", "-lm"]
        subprocess.run([*command, "-o", "model"], cwd=tmp_path, check=True)
        done = subprocess.run([tmp_path / "model"], capture_output=True, text=True, check=True)
        answers.append(np.array(done.stdout.split(), float))
    tolerance = 1e-5 if kind == "trained" else 1e-3  # outputs cross thresholds a sample later
    np.testing.assert_allclose(*answers, atol=tolerance)
    if SOAK == 1_000_000:
        drawn, samples = 1, np.empty(2 * SOAK, np.float32)
        for i in range(2 * SOAK):
            drawn = (drawn * 1664525 + 1013904223) % 2**32
            samples[i] = (drawn >> 8) / 2**24
        predicted = estimator.predict_proba(samples.reshape(1, SOAK, 2).swapaxes(1, 2))[0]
        np.testing.assert_allclose(answers[0], predicted, atol=tolerance)
