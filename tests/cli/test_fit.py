"""`linoss fit`: what it prints, writes and refuses."""

import json

import numpy as np
import pandas
import pytest

import linoss
from linoss.training import load_model

BANK = "--set n_oscillators=64 --set causal=yes"

# ---- Results ----


def test_help_fits_on_a_page(good):
    text = good("fit --help", width=80)
    assert len(text.splitlines()) <= 60
    assert "--set" in text


def test_a_run_holds_models_a_history_and_a_report(run):
    assert {path.name for path in run.iterdir()} == {"config.json", "model-1", "report.html"}
    assert (run / "model-1" / "state.safetensors").exists()


def test_people_are_told_the_score_and_where_the_run_is(tmp_path, data, small, linoss_command):
    out, log, board = tmp_path / "run", tmp_path / "logs" / "run.jsonl", tmp_path / "board"
    options = f"{small} --steps 2 --watch {log} --watch {board}"
    result = linoss_command(f"fit {data} --task classification --out {out} {options}")
    assert json.loads(log.read_text().splitlines()[-1])["step"] == 2
    assert [path.name.startswith("events.") for path in board.iterdir()] == [True]
    assert "accuracy" in result.stdout
    assert f"The run is in {out}; see {out / 'report.html'}" in result.stdout
    assert "step 2/2" in result.stderr


def test_without_a_test_part(tmp_path, data, small, good):
    line = f"fit {data / 'Waves_TRAIN.csv'} --task classification {small} --steps 2"
    printed = good(f"{line} --out {tmp_path / 'a'}")
    assert "predictions for the training cases are correct" in printed
    assert "expect lower scores for new ones. To hold some out, use --set validation_f" in printed
    printed = good(f"{line} --out {tmp_path / 'b'} --set validation_fraction=0.25")
    assert "Validation accuracy" in printed
    assert "The data have no test part." in printed


def test_settings_become_parameters(tmp_path, data, small, good):
    out = tmp_path / "run"
    given = {"scheme": "imex", "norm": "none", "time-channel": "yes", "min_radius": 0.5}
    given |= {"class_weight": "balanced", "clip_norm": "none", "random-state": 7}
    options = " ".join(f"--set {name}={value}" for name, value in given.items())
    good(f"fit {data} --task classification --out {out} {small} --steps 3 {options}")
    saved, estimator = load_model(out / "model-1"), linoss.load(out)
    assert saved.training is not None
    model, training = saved.model.config, saved.training
    assert (model.scheme, model.norm, model.min_radius) == ("imex", None, 0.5)
    assert (training.clip_norm, training.seed) == (None, 7)
    assert saved.inputs.time_channel
    assert (estimator.class_weight, estimator.random_state) == ("balanced", 7)
    assert estimator.model_options == {"min_radius": 0.5}


def test_a_baseline_is_trained_like_linoss(tmp_path, data, small, good_json, good):
    out = tmp_path / "run"
    line = f"fit {data} --task classification --model lru --out {out} --steps 2"
    sizes = small.replace("--set scheme=im --set damped=no ", "")
    assert good_json(f"{line} {sizes}")["models"] == ["linoss"]
    assert load_model(out / "model-1").model.config.mixer == "lru"
    assert "1 block of lru" in (out / "report.html").read_text()
    assert "lru" in good(f"inspect {out}")


def test_outputs_at_every_kth_step(tmp_path, waves, small, good):
    values, _ = waves(8)
    path, out = tmp_path / "steps.npz", tmp_path / "run"
    np.savez(path, X=values, y=values[:, 0, 9::10])
    good(f"fit {path} --task regression --set every=10 --out {out} {small} --steps 2")
    good(f"predict {out} {path} --out {tmp_path / 'predictions.csv'}")
    lines = (tmp_path / "predictions.csv").read_text().splitlines()
    assert lines[0] == "case,step,prediction"
    assert [line.split(",")[:2] for line in lines[1:5]] == [["0", str(s)] for s in (10, 20, 30, 40)]


def test_a_directory_of_tables_for_forecasting(tmp_path, load, small_forecaster, good_json):
    lines, out = load.read_text().splitlines(keepends=True), tmp_path / "run"
    (tmp_path / "train.csv").write_text("".join(lines[:150]))
    (tmp_path / "test.csv").write_text("".join([lines[0], *lines[150:]]))
    options = f"--horizon 6 --set past=24 --known-in-advance hour {small_forecaster} --steps 3"
    found = good_json(f"fit {tmp_path} --task forecasting --out {out} {options}")["test"]
    assert good_json(f"evaluate {out} {tmp_path}")["mae"] == pytest.approx(found["mae"])


def test_oscillators(tmp_path, data, bank, good_json):
    out = tmp_path / "run"
    found = good_json(f"fit {data} --task classification {bank} --out {out}")
    estimator = linoss.load(out)
    assert isinstance(estimator, linoss.OscillatorClassifier)
    assert (estimator.n_oscillators, estimator.causal, estimator.random_state) == (64, True, 0)
    assert found["models"] == ["oscillators"]
    assert found["scores"] == {"leave-one-out accuracy": estimator.held_out_score_}
    assert found["test"]["accuracy"] == 1
    names = {path.name for path in out.iterdir()}
    assert names == {"arrays.safetensors", "config.json", "report.html"}
    assert good_json(f"evaluate {out} {data}") == found["test"]


def test_auto(tmp_path, numbers, data, linoss_command, good, good_json):
    """Without minutes the oscillators are kept, and the reason is told; with them, it compares."""
    out = tmp_path / "numbers"
    found = good_json(f"fit {numbers} --task regression --minutes 0 --out {out} {BANK}")
    assert found["choice"]["kept"] == "oscillators"
    assert found["scores"]["leave-one-out R²"] > 0.9
    assert "minutes is 0" in (out / "report.html").read_text()
    assert good_json(f"fit {numbers} --out {out} --resume")["test"] == found["test"]
    out = tmp_path / "run"
    line = f"fit {data} --task classification --out {out} --set n_oscillators=64 --minutes 0.05"
    result = linoss_command(line)
    assert result.exit_code == 0, result.output
    assert "Untrained oscillators, after" in result.stderr
    assert "held-out cases, against" in result.stderr.splitlines()[-1]
    again = good_json(f"fit {data} --out {out} --resume")
    assert set(again["choice"]["scores"]) == {"oscillators", "linoss", "ensemble"}


# ---- Columns ----


def test_columns_that_are_no_channels(tmp_path, data, good, good_json, failing, linoss_command):
    """They are kept with the run, and need not be in the data of predictions."""
    table = pandas.read_csv(data / "Waves_TRAIN.csv")
    table = table.rename(columns={"case": "patient", "label": "kind", "z": "t_sec"})
    table["t_sec"], table["ward"] = np.arange(len(table)) % 40 / 8, table["patient"].str[1:].str[:1]
    path, out = tmp_path / "table.csv", tmp_path / "run"
    table.to_csv(path, index=False)
    columns = "--label kind --case patient --time t_sec --channels x --groups ward"
    settings = "--task classification --model oscillators --set n_oscillators=16"
    result = linoss_command(f"fit {path} {settings} --out {out} {columns}")
    assert result.exit_code == 0, result.output
    read = "Read 32 cases of 1 channel (x), 40 samples; time: t_sec"
    assert result.stderr.startswith(read)
    assert "label: kind, 2 classes; groups: ward" in result.stderr
    assert good_json(f"predict {out} {path}")["predictions"][3]["case"] == "c3"
    assert good_json(f"evaluate {out} {path}")["cases"] == 32
    kept = out / "columns.json"
    changed = kept.read_text().replace("kind", "age")
    for content in ("", "[]", '{"label": 3}', "[" * 10**5, changed):
        kept.write_text(content)
        assert "columns.json: is invalid" in failing(f"predict {out} {path}")


def test_labels_that_do_not_suit_the_task(tmp_path, data, failing):
    out = tmp_path / "run"
    message = failing(f"fit {data} --task regression --out {out}")
    assert "a label is 'low', expected numbers for --task regression" in message
    message = failing(f"fit {data} --task classification --out {out} --label kind")
    assert "--label 'kind' is no column, expected its name or its position" in message
    (tmp_path / "a.csv").write_text("x_0,x_1\n1,2\n3,4\n")
    message = failing(f"fit {tmp_path / 'a.csv'} --task classification --out {out}")
    assert "a.csv: has no labels, expected a column named label" in message


# ---- Runs that go on ----


def test_a_finished_run_is_resumed_to_its_end_and_not_overwritten(run, data, failing, good_json):
    weights = run / "model-1" / "weights.safetensors"
    before = weights.read_bytes()
    message = failing(f"fit {data} --task classification --out {run}")
    assert "already holds a run" in message
    assert "--resume" in message
    assert 0 < good_json(f"fit {data} --out {run} --resume")["steps"] <= 40
    assert weights.read_bytes() == before


def test_a_run_is_not_resumed_with_others(tmp_path, run, data, waves, write_cases, failing):
    for options, message in {
        "--set hidden_size=16": "hidden_size is 8 in the run, but 16 now",
        "--task regression": "holds a run of classification, but --task is regression",
        "--model auto": "holds a run of linoss, but --model is auto",
    }.items():
        assert message in failing(f"fit {data} --out {run} --resume {options}")
    write_cases(tmp_path / "other.csv", *waves(24))
    message = failing(f"fit {tmp_path / 'other.csv'} --out {run} --resume")
    assert "resume with the settings and the data of the run" in message


def test_devices_and_others_when_a_run_goes_on(tmp_path, data, small, good_json, failing):
    line = f"fit {data} --task classification {small} --steps 4 --out {tmp_path}"
    assert good_json(f"{line}/several --devices 4x2")["test"] == good_json(f"{line}/one")["test"]
    resumed = good_json(f"fit {data} --out {tmp_path}/several --resume --devices 4")
    assert resumed["steps"] == 4
    assert "batch_size is 8, expected a multiple of 3" in failing(f"{line}/no --devices 3")
    assert "devices is 99, but JAX has 8" in failing(f"{line}/not --devices 99")


def test_resume_without_a_run(tmp_path, oscillators, data, small, failing, good_json):
    out = tmp_path / "run"
    message = failing(f"fit {data} --out {out} --resume")
    assert "run: holds no run to resume; omit --resume and pass --task" in message
    line = f"fit {data} --task classification --out {out} {small} --steps 2 --resume"
    assert good_json(line)["steps"] == 2
    message = failing(f"fit {data} --out {oscillators} --resume")
    assert "holds untrained oscillators: there is nothing to resume" in message


def test_from_another_run(tmp_path, data, run, linoss_command, failing):
    """With the sizes of that run."""
    line = f"fit {data} --task classification --out {tmp_path / 'run'} --start-from {run} --steps 2"
    result = linoss_command(f"{line} --set n_models=1")
    assert result.exit_code == 0, result.output
    assert "Reused weights: encoder, block 1, head" in result.stderr
    assert linoss.load(tmp_path / "run").hidden_size == 8
    line = f"fit {data} --out {tmp_path / 'other'} --start-from {run} --task regression"
    assert "holds a run of linoss for classification" in failing(line, code=2)


# ---- Wrong use ----


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("", "expected one of classification, regression, forecasting"),
        ("--horizon 3", "horizon is 3, but task is 'classification', not 'forecasting'"),
        ("--known-in-advance x", "known_in_advance is for forecasting, not for classification"),
        ("--set every=3", "every is 3, but task is 'classification', not 'regression'"),
        ("--set hiden_size=3", "--set has 'hiden_size', expected a setting such as hidden_size"),
        ("--set scheme=rk4", "scheme is 'rk4', expected one of im, imex, verlet, exact"),
        ("--set learning_rate=nan", "learning_rate is 'nan', expected a finite number > 0"),
        ("--set scheme=verlet --set damped=yes", "damped is True, but scheme 'verlet' has no"),
        ("--steps 5 --set warmup=5", "warmup is 5, expected an integer below steps, 5"),
        ("--model oscillators --watch log.jsonl", "--watch is for --model linoss"),
        ("--model oscillators --steps 3", "steps is for --model linoss, not for --model osc"),
        ("--model auto --set scheme=im", "scheme is for --model linoss, not for --model auto"),
        ("--model auto --devices 2", "--devices is for --model linoss, not for --model auto"),
        ("--model lru --set scheme=im", "scheme is 'im', but mixer 'lru' has no such setting"),
        ("--model s5 --set mixer=lru", "--model s5 and --set mixer: expected one of the two"),
        ("--task forecasting --model auto", "--model auto is not for forecasting, which has"),
        (
            "--task forecasting --set causal=yes",
            "causal is for classification and regression, not for foreca",
        ),
        ("--task classification --devices none", "expected a number, or such as 2x4"),
        ("--task forecasting --label kind", "--label is for classification and regression"),
    ],
)
def test_wrong_use(tmp_path, failing, options, message):
    """Named before the data are read: there are none in the file."""
    empty = tmp_path / "empty.csv"
    empty.touch()
    task = "" if not options or "--task" in options else "--task classification"
    said = failing(f"fit {empty} {task} --out {tmp_path / 'run'} {options}", code=2)
    assert message in " ".join(said.replace("│", " ").split())
    assert not (tmp_path / "run").exists()


def test_data_and_directories_that_cannot_be(tmp_path, data, small, failing):
    message = failing(f"fit {tmp_path / 'absent.csv'} --task regression --out {tmp_path / 'run'}")
    assert "absent.csv: there is no such file" in message
    (tmp_path / "file").write_text("")
    failing(f"fit {data} --task classification --out {tmp_path / 'file' / 'run'} {small} --steps 1")


def test_a_loss_that_is_not_finite(tmp_path, data, small, failing):
    wild = "--steps 50 --set learning_rate=1e30 --set clip_norm=none --set norm=none --set warmup=0"
    message = failing(f"fit {data} --task classification --out {tmp_path / 'run'} {small} {wild}")
    assert "try a lower learning_rate" in message
