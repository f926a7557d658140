"""What a command prints and writes once a fit has ended."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from linoss.cli._output import number, show_json, show_line
from linoss.cli._report import About, write_report
from linoss.cli._run_settings import REPORT
from linoss.cli._runs import Run
from linoss.cli._scores import Evaluation, backtest_windows, evaluate_run, show_backtest


def finish(
    estimator: Any,
    out: Path,
    training: Any,
    test: Any,
    *,
    data: Path | None = None,
    seconds: float | None = None,
    json: bool,
) -> None:
    """Score a fitted estimator, write its report, and print the results."""
    run = Run.of(estimator)
    evaluation = evaluate_run(run, training, test)
    write_report(out / REPORT, run, evaluation, About(data, training, seconds))
    if json:
        show_json(_record(run, out, evaluation))
        return
    if not run.is_forecaster and run.model.choice is not None:
        show_line(f"{run.model.choice.why}.")
    for name, value in run.scores.items():
        note = "" if evaluation.test is not None else " (there is no test part)"
        show_line(f"{name[0].upper()}{name[1:]} {number(value)}{note}")
    if evaluation.test is not None:
        show_line("Test:")
        evaluation.test.show()
    elif evaluation.kind == "training" and evaluation.score is not None:
        name, value = evaluation.score.headline
        show_line(
            f"Training {name} {number(value)}, on training cases; expect lower scores for new "
            "ones. Use --validation-fraction 0.2, or linoss evaluate with other data"
        )
    elif run.is_forecaster and run.n_steps == 0:
        show_line(
            "No model is trained, because the series are short or --steps is 0: forecasts are made "
            "of trend, seasons and linear forecasts"
        )
    if evaluation.backtest is not None:
        show_line(f"{backtest_windows(evaluation.kind)}:")
        show_backtest(evaluation.backtest)
    show_line(f"The run is in {out}; see {out / REPORT}")


def _record(run: Run, out: Path, evaluation: Evaluation) -> dict[str, Any]:
    """The results for JSON."""
    test, backtest = evaluation.test, evaluation.backtest
    record: dict[str, Any] = {"run": str(out), "report": str(out / REPORT), "task": run.task}
    record |= {"estimator": run.estimator, **_outcome(run)}
    record["test"] = None if test is None else test.record()
    if backtest is not None:
        windows = backtest_windows(evaluation.kind)
        record["backtest"] = {"of": windows, "errors": backtest.rows()}
    return record


def _outcome(run: Run) -> dict[str, Any]:
    from linoss.nn import count_parameters

    outcome: dict[str, Any] = {"scores": run.scores}
    if not run.is_forecaster:
        choice = run.model.choice
        outcome["models"] = list(run.model.members)
        outcome["choice"] = None if choice is None else asdict(choice)
    if run.trained:
        outcome["steps"] = run.n_steps
        outcome["parameters"] = sum(map(count_parameters, run.trained))
    return outcome
