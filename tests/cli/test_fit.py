"""`linoss fit`: what it prints, writes and refuses."""

import inspect
import json
import re

import numpy as np
import pytest

import linoss.estimators
from linoss.cli import _options as options
from linoss.cli._run_settings import ESTIMATORS
from linoss.training import load_model


def test_a_run_holds_a_model_a_history_and_a_report(run):
    assert {path.name for path in run.iterdir()} == {
        "columns.json",
        "config.json",
        "history.jsonl",
        "report.html",
        "stack",
        "state.safetensors",
        "weights.safetensors",
    }


def test_it_learns_and_scores_the_test_part(tmp_path, data, small, good_json):
    options = f"{small} --steps 60 --learning-rate 0.02"
    found = good_json(f"fit {data} --task classification --out {tmp_path / 'run'} {options}")
    assert found["test"]["accuracy"] == 1
    assert found["test"]["cases"] == 12
    assert found["steps"] == 60
    assert found["validation"] is None
    assert found["report"] == str(tmp_path / "run" / "report.html")


def test_people_are_told_the_score_and_where_the_run_is(tmp_path, data, small, linoss_command):
    out, log, board = tmp_path / "run", tmp_path / "logs" / "run.jsonl", tmp_path / "board"
    options = f"{small} --steps 2 --watch {log} --watch {board}"
    result = linoss_command(f"fit {data} --task classification --out {out} {options}")
    assert json.loads(log.read_text().splitlines()[-1])["step"] == 2
    assert [path.name.startswith("events.") for path in board.iterdir()] == [True]
    assert "accuracy" in result.stdout
    assert f"The run is in {out}; see {out / 'report.html'}" in result.stdout
    assert "step 2/2" in result.stderr


def test_with_nothing_held_out_it_says_so(tmp_path, data, small, good):
    out = tmp_path / "run"
    printed = good(
        f"fit {data / 'Waves_TRAIN.csv'} --task classification --out {out} {small} --steps 2"
    )
    assert re.search(r"Training accuracy [\d.]+, on training cases; expect lower", printed)
    assert "Use --validation-fraction 0.2" in printed


def test_without_a_test_part_the_score_is_that_of_validation(tmp_path, data, small, good):
    out = tmp_path / "run"
    options = f"{small} --steps 2 --validation-fraction 0.25"
    printed = good(f"fit {data / 'Waves_TRAIN.csv'} --task classification --out {out} {options}")
    assert "Validation accuracy" in printed
    assert "(there is no test part)" in printed


def test_options_become_parameters(tmp_path, data, small, good):
    out = tmp_path / "run"
    good(
        f"fit {data} --task classification --out {out} {small} --steps 3 --scheme imex --damped "
        "--norm none --time-channel --model-option pooling=last --model-option min_radius=0.5 "
        "--class-weight balanced --label-smoothing 0.1 --clip-norm none --schedule constant "
        "--warmup 1 --weight-decay 0 --patience 3 --evaluate-every 1 --seed 7 "
        "--validation-fraction 0.25"
    )
    saved = load_model(out)
    assert saved.training is not None
    model, training = saved.model.config, saved.training
    assert (model.scheme, model.damped, model.norm) == ("imex", True, None)
    assert (model.pooling, model.min_radius) == ("last", 0.5)
    assert (training.clip_norm, training.schedule, training.seed) == (None, "constant", 7)
    assert saved.inputs.time_channel
    assert saved.extra["parameters"]["class_weight"] == "balanced"


@pytest.mark.parametrize("kind", ESTIMATORS.values())
def test_every_parameter_of_an_estimator_has_an_option(kind):
    spelled = {"random_state": "seed", "known_in_advance": "known", "model_options": "model_option"}
    given = set(inspect.signature(linoss.cli._fit.fit).parameters)
    wanted = inspect.signature(getattr(linoss.estimators, kind)).parameters
    lacking = {spelled.get(name, name) for name in wanted} - given - {"verbose", "linoss_options"}
    assert not lacking


def test_the_defaults_that_help_shows_are_those_of_the_estimators():
    shown = {
        name: parameter.annotation.__metadata__[0].show_default
        for name, parameter in inspect.signature(linoss.cli._fit.fit).parameters.items()
    }
    for (model, task), kind in ESTIMATORS.items():
        for name, wanted in inspect.signature(getattr(linoss.estimators, kind)).parameters.items():
            told = shown.get(name)
            if not isinstance(told, str) or wanted.default is None:
                continue
            said = dict(part.rsplit(" ", 1) for part in told.split(", ") if " " in part)
            words = {"True": "yes", "False": "no", "()": "none"}
            default = words.get(str(wanted.default), str(wanted.default))
            here = task if model == "linoss" else model
            assert said.get(here, said.get("others", told)) == default, name


def test_the_column_of_labels_is_remembered(tmp_path, waves, write_cases, small, good, good_json):
    values, labels = waves(16)
    write_cases(tmp_path / "cases.csv", values, labels, name="kind")
    out = tmp_path / "run"
    options = f"{small} --steps 2 --label kind"
    good(f"fit {tmp_path / 'cases.csv'} --task classification --out {out} {options}")
    assert good_json(f"evaluate {out} {tmp_path / 'cases.csv'}")["cases"] == 16
    assert json.loads((out / "columns.json").read_text())["roles"] == {"label": "kind"}


def test_a_column_of_labels_that_is_not_there(tmp_path, data, failing):
    message = failing(f"fit {data} --task classification --out {tmp_path / 'run'} --label kind")
    assert "--label 'kind' is no column, expected its name or its position" in message


def test_numbers(regressor, numbers, good_json):
    found = good_json(f"evaluate {regressor} {numbers}")
    assert found["r2"] > 0.3
    assert found["cases"] == 12


def test_answers_at_every_kth_step(tmp_path, waves, small, good):
    values, _ = waves(8)
    np.savez(tmp_path / "steps.npz", X=values, y=values[:, 0, 9::10])
    out = tmp_path / "run"
    good(f"fit {tmp_path / 'steps.npz'} --task regression --every 10 --out {out} {small} --steps 2")
    good(f"predict {out} {tmp_path / 'steps.npz'} --out {tmp_path / 'answers.csv'}")
    lines = (tmp_path / "answers.csv").read_text().splitlines()
    assert lines[0] == "case,step,prediction"
    assert [line.split(",")[:2] for line in lines[1:5]] == [["0", str(s)] for s in (10, 20, 30, 40)]


def test_classes_are_no_numbers(tmp_path, data, failing):
    message = failing(f"fit {data} --task regression --out {tmp_path / 'run'}")
    assert "a label is 'low', expected numbers for --task regression" in message


def test_numbers_are_no_classes(tmp_path, waves, small, failing):
    values, _ = waves(8)
    np.savez(tmp_path / "numbers.npz", X=values, y=np.linspace(0.1, 0.93, 8))
    message = failing(
        f"fit {tmp_path / 'numbers.npz'} --task classification --out {tmp_path / 'run'} {small}"
    )
    assert "numbers with fractions, such as 0.1, expected classes" in message


def test_a_run_is_not_overwritten(run, data, failing):
    before = (run / "weights.safetensors").read_bytes()
    message = failing(f"fit {data} --task classification --out {run}")
    assert "already holds a run" in message
    assert "--resume" in message
    assert (run / "weights.safetensors").read_bytes() == before


def test_a_finished_run_is_resumed_to_its_end(run, data, good_json):
    before = (run / "weights.safetensors").read_bytes()
    assert good_json(f"fit {data} --out {run} --resume")["steps"] == 40
    assert (run / "weights.safetensors").read_bytes() == before


def test_a_run_is_not_resumed_with_other_settings(run, data, failing):
    message = failing(f"fit {data} --out {run} --resume --hidden-size 16")
    assert "model.hidden_size is 8 in the run, but 16 now" in message


def test_a_run_is_not_resumed_as_another_task(run, data, failing):
    message = failing(f"fit {data} --out {run} --resume --task regression")
    assert "holds a run of classification, but --task is regression" in message


def test_a_run_is_not_resumed_with_other_data(tmp_path, run, waves, write_cases, failing):
    write_cases(tmp_path / "other.csv", *waves(24))
    columns = (run / "columns.json").read_bytes()
    assert "the data are not those of the run (scaling differs)" in failing(
        f"fit {tmp_path / 'other.csv'} --out {run} --resume"
    )
    assert (run / "columns.json").read_bytes() == columns


def test_what_was_never_begun_is_begun_by_resume(tmp_path, data, small, good_json):
    out = tmp_path / "run"
    line = f"fit {data} --task classification --out {out} {small} --steps 2 --resume"
    assert good_json(line)["steps"] == 2


def test_the_same_seed_gives_the_same_run(tmp_path, data, small, good):
    for name in ("a", "b"):
        options = f"--out {tmp_path / name} {small} --steps 3 --seed 3"
        good(f"fit {data} --task classification {options}")
    first, second = (tmp_path / name / "weights.safetensors" for name in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()


def test_a_directory_of_tables_for_forecasting(tmp_path, load, small_forecaster, good_json):
    directory = tmp_path / "parts"
    directory.mkdir()
    lines = load.read_text().splitlines(keepends=True)
    (directory / "train.csv").write_text("".join(lines[:150]))
    (directory / "test.csv").write_text("".join([lines[0], *lines[150:]]))
    out = tmp_path / "run"
    options = f"--horizon 6 --past 24 --known hour {small_forecaster} --steps 3"
    found = good_json(f"fit {directory} --task forecasting --out {out} {options}")
    assert found["test"]["mean_scaled_mae"] > 0
    assert found["backtest"]["of"] == "Windows of the test part"
    again = good_json(f"evaluate {out} {directory}")
    assert again["mae"] == pytest.approx(found["test"]["mae"])


# ---- Wrong use ----


def test_a_task_must_be_named(tmp_path, data, failing):
    assert "--task" in failing(f"fit {data} --out {tmp_path / 'run'}", code=2)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--horizon 3", "--horizon is for forecasting, not for classification"),
        ("--known x", "--known is for forecasting, not for classification"),
        ("--every 3", "--every is for regression, not for classification"),
        ("--model-option pooling", "expected NAME=VALUE"),
        ("--no-such-option", "no-such-option"),
        ("--scheme rk4", "'--scheme': 'rk4', expected one of im, imex, verlet, exact"),
        ("--norm group", "'--norm': 'group', expected one of none, layer, batch, running"),
        ("--class-weight equal", "'--class-weight': 'equal', expected none or balanced"),
        ("--steps -1", "'--steps': '-1', expected none or an integer >= 0"),
        ("--steps many", "'--steps': 'many', expected none or an integer >= 0"),
        ("--dropout 2", "'--dropout': '2', expected a number in [0, 1)"),
        ("--learning-rate nan", "'--learning-rate': 'nan', expected a finite number > 0"),
        ("--validation-fraction 1", "'1', expected none or a number in [0, 1)"),
        ("--clip-norm 0", "'--clip-norm': '0', expected none or a finite number > 0"),
        ("--seed none", "'--seed': 'none', expected an integer in [0, 4294967296)"),
        ("--model-option colour=3", "--model-option colour is not a setting of LinOSSConfig"),
        ("--model-option pooling=sum", "--model-option pooling is 'sum', expected one of mean"),
        ("--scheme verlet --damped", "damped is True, but scheme 'verlet' has no damping"),
        ("--steps 5 --warmup 5", "warmup is 5, expected an integer below steps, 5"),
        ("--model oscillators --watch log.jsonl", "--watch is for trained models"),
        ("--model-option task=regression", "model_options has 'task', expected settings of"),
    ],
)
def test_wrong_use(tmp_path, failing, option, message):
    """Named before the data are read: there are none in the file."""
    empty = tmp_path / "empty.csv"
    empty.touch()
    said = failing(f"fit {empty} --task classification --out {tmp_path / 'run'} {option}", code=2)
    assert message in " ".join(said.replace("│", " ").split())
    assert not (tmp_path / "run").exists()


def test_data_that_are_not_there(tmp_path, failing):
    message = failing(f"fit {tmp_path / 'absent.csv'} --task regression --out {tmp_path / 'run'}")
    assert "absent.csv: there is no such file" in message


def test_a_directory_that_cannot_be_written(tmp_path, data, small, failing):
    (tmp_path / "file").write_text("")
    failing(f"fit {data} --task classification --out {tmp_path / 'file' / 'run'} {small} --steps 1")


def test_a_loss_that_is_not_finite(tmp_path, data, small, failing):
    options = f"{small} --steps 50 --learning-rate 1e30 --clip-norm none --norm none --warmup 0"
    message = failing(f"fit {data} --task classification --out {tmp_path / 'run'} {options}")
    assert "try a lower learning_rate" in message


def test_options_of_one_task_say_so():
    shown = {
        name: parameter.annotation.__metadata__[0]
        for name, parameter in inspect.signature(linoss.cli._fit.fit).parameters.items()
    }
    assert shown["every"].help.startswith("Regression: ")
    assert shown["class_weight"].help.startswith("Classification: ")
    for name, setting in options.settings().items():
        about = shown[setting.about.option or name]
        assert (about.rich_help_panel == options.ONE_TASK) == (len(options.tasks_of(name)) == 1)


def test_labels_are_not_for_forecasting(tmp_path, failing):
    line = f"fit {tmp_path} --task forecasting --out {tmp_path / 'run'} --label kind"
    assert "--label is for classification and regression" in failing(line, code=2)


def test_a_run_with_a_setting_that_no_estimator_has():
    with pytest.raises(ValueError, match="momentum is not a setting of an estimator"):
        options.record("linoss", "classification", {"steps": 3, "momentum": 0.9})


def test_a_model_to_compare_with_is_trained_like_linoss(tmp_path, data, good_json, good):
    out = tmp_path / "run"
    sizes = "--hidden-size 8 --state-size 8 --num-blocks 1 --batch-size 8 --steps 2 --n-models 1"
    found = good_json(
        f"fit {data} --task classification --model s5 --out {out} {sizes} "
        "--model-option state_blocks=2"
    )
    assert (found["steps"], found["models"]) == (2, ["linoss"])  # without oscillators
    config = load_model(out).model.config
    assert (config.mixer, config.state_blocks) == ("s5", 2)
    assert "1 block of s5" in (out / "report.html").read_text()
    assert "s5" in good(f"inspect {out}")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "--model lru --scheme im",
            "--scheme is not for --model lru, whose own options are: --state-size",
        ),
        (
            "--model s5 --damped",
            "--damped is not for --model s5, whose own options are: --state-size, "
            "--model-option state_blocks",
        ),
        (
            "--model gru --state-size 8",
            "--state-size is not for --model gru, whose own options are: none",
        ),
        ("--model s5 --state-size 7", "state_size is 7, expected a multiple of 2"),
        ("--model s5 --mixer lru", "--model s5 and --mixer lru: expected one of the two"),
    ],
)  # fmt: skip
def test_options_of_other_models_are_usage_errors(tmp_path, data, failing, line, words):
    told = failing(f"fit {data} --task classification --out {tmp_path / 'run'} {line}", code=2)
    assert words in " ".join(told.replace("│", " ").split())


def test_from_another_run(tmp_path, data, run, small, linoss_command, failing):
    """With the sizes of that run, and other classes."""
    from linoss.estimators import load

    line = f"fit {data} --task classification --out {tmp_path / 'run'} --from {run} --steps 2"
    result = linoss_command(f"{line} --n-models 1")
    assert result.exit_code == 0, result.output
    assert "Reused weights: encoder, block 1, head" in result.stderr
    assert load(tmp_path / "run").hidden_size == 8
    line = f"fit {data} --out {tmp_path / 'other'} --from {run} --task regression"
    assert "holds a run of linoss for classification" in failing(line, code=2)


def test_resume_without_a_run(tmp_path, data, failing):
    message = failing(f"fit {data} --out {tmp_path / 'run'} --resume")
    assert "run: holds no run to resume; omit --resume and pass --task" in message


def test_data_without_labels(tmp_path, failing):
    (tmp_path / "a.csv").write_text("x_0,x_1\n1,2\n3,4\n")
    message = failing(f"fit {tmp_path / 'a.csv'} --task classification --out {tmp_path / 'run'}")
    assert "a.csv: has no labels, expected a column named label" in message
    assert "--label" in message


def test_columns_that_are_no_channels(tmp_path, data, good, good_json):
    """They are kept with the run, and need not be in what is predicted for."""
    rows = (data / "Waves_TRAIN.csv").read_text().splitlines()
    plain, more = tmp_path / "plain.csv", tmp_path / "more.csv"
    plain.write_text("\n".join(rows) + "\n")
    head = rows[0].replace("case", "patient") + ",age"
    more.write_text("\n".join([head, *(f"{row},{i}" for i, row in enumerate(rows[1:]))]) + "\n")
    out = tmp_path / "run"
    settings = "--task classification --model oscillators --n-oscillators 16"
    good(f"fit {more} {settings} --out {out} --id patient --drop age")
    found = good_json(f"predict {out} {more}")
    assert found["predictions"][3]["case"] == "c3"
    assert good_json(f"predict {out} {plain}") == found
