"""Forecasts beside simple ones, on data at hand.

    python benchmarks/forecasts.py --data-dir DATA              # all of what follows
    python benchmarks/forecasts.py --data-dir DATA --set ETTh1 --horizon 96
    python benchmarks/forecasts.py --set short drawn thousands  # without files

Long sets (`DATA/forecasting/ETTh1.csv` and `exchange_rate.csv`, `DATA/WTH/WTH.csv`) have their
standard parts. The forecaster is fitted once, to the training and validation part, with default
settings; errors are those of windows of the test part that begin every 24 steps, on variables
scaled by the training part. Short series are public ones of sktime; all models are fitted again at
each of 16 times in their last third. `drawn` are short series of known laws, of which one forecast
each is made; `thousands` are 2,000 series, with time and memory. Needs `.[benchmark]` installed.
"""

import argparse
import importlib
import resource
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas

from linoss import LinOSSForecaster
from linoss.data import Table, read_table
from linoss.forecasting import Backtest

LONG = {  # file, ends of the training, validation and test part, horizons
    "ETTh1": ("forecasting/ETTh1.csv", (8640, 11520, 14400), (96, 192, 336, 720)),
    "exchange": ("forecasting/exchange_rate.csv", (5311, 6071, 7588), (96, 192, 336, 720)),
    "weather": ("WTH/WTH.csv", (24544, 28051, 35064), (24, 96, 336, 720)),
}
PUBLISHED = {  # MSE and MAE of these networks in their papers, by horizon
    "ETTh1": {
        "DLinear": {
            96: (0.375, 0.399),
            192: (0.405, 0.416),
            336: (0.439, 0.443),
            720: (0.472, 0.490),
        },
        "PatchTST": {
            96: (0.370, 0.400),
            192: (0.413, 0.429),
            336: (0.422, 0.440),
            720: (0.447, 0.468),
        },
    },
    "exchange": {
        "DLinear": {
            96: (0.081, 0.203),
            192: (0.157, 0.293),
            336: (0.305, 0.414),
            720: (0.643, 0.601),
        }
    },
}
_LAGS, _PENALTY = 336, 1000.0
_LONGEST_OF_OTHERS = 24


# ---- Long series ----


def long_series(name: str, root: Path, horizons: list[int] | None, options: dict) -> list[Backtest]:
    """Errors and coverage on one of the long sets."""
    file, (train, begin, end), usual = LONG[name]
    frame: Any = pandas.read_csv(root / file, parse_dates=["date"]).set_index("date")[:end]
    deviation = frame[:train].std(ddof=0).to_numpy()
    backtests = []
    for horizon in horizons or usual:
        began = time.perf_counter()
        forecaster = LinOSSForecaster(horizon=horizon, **options).fit(frame[:begin])
        seconds = time.perf_counter() - began
        past = max(forecaster.fitted_.past, _LAGS)
        data = frame[begin - past :]
        test = forecaster.backtest(data, windows=10**6, stride=24)
        ends = data.index.get_indexer(test.times) + 1
        kept = ends >= past
        forecasts = {of: each[kept] for of, each in test.forecasts.items()}
        values = data.to_numpy(float) / deviation
        forecasts["ridge"] = (
            ridge_of_all(frame[:begin].to_numpy(float) / deviation, horizon)(
                np.stack([values[e - _LAGS : e] for e in ends[kept]])
            )
            * deviation
        )
        print(f"{name}, {horizon} steps ahead, {kept.sum()} windows, fitted in {seconds:.1f} s")
        for of, each in forecasts.items():
            errors = (each - test.truth[kept]) / deviation
            print(f"  {of:<16} MSE {np.mean(errors**2):.4f}  MAE {np.mean(np.abs(errors)):.4f}")
        for network, figures in PUBLISHED.get(name, {}).items():
            if horizon in figures:
                print(
                    "  {:<16} MSE {:.3f}   MAE {:.3f}   (published)".format(
                        network, *figures[horizon]
                    )
                )
        print(f"  {covered([test])}; MASE {test.error('mase'):.4f}")
        for trial in forecaster.fitted_.trials:
            line = f"{trial.method:<56} {trial.error:.3f} +- {trial.standard_error:.3f}"
            print(f"    tried {line} {'used' if trial.is_chosen else ''}")
        print(flush=True, end="")
        backtests.append(test)
    return backtests


def ridge_of_all(values: np.ndarray, horizon: int) -> Callable[[np.ndarray], np.ndarray]:
    """One ridge regression for all variables, on the last values of a window minus the last one."""
    gram, products = np.zeros((_LAGS, _LAGS)), np.zeros((_LAGS, horizon))
    for column in values.T:
        rows = np.lib.stride_tricks.sliding_window_view(column, _LAGS + horizon)
        rows = rows - rows[:, _LAGS - 1 : _LAGS]
        gram += rows[:, :_LAGS].T @ rows[:, :_LAGS]
        products += rows[:, :_LAGS].T @ rows[:, _LAGS:]
    weights = np.linalg.solve(gram + _PENALTY * np.eye(_LAGS), products)

    def forecast(pasts: np.ndarray) -> np.ndarray:
        last = pasts[:, -1:]
        return np.moveaxis(np.tensordot(pasts - last, weights, (1, 0)), 1, 2) + last

    return forecast


def covered(tests: list[Backtest]) -> str:
    """The mean coverage of intervals."""
    levels = sorted({level for test in tests for level in test.intervals})
    means = [
        (level, np.mean([np.nanmean(t.coverage(level)) for t in tests if level in t.intervals]))
        for level in levels
    ]
    return "covered " + ", ".join(f"{level:g} %: {100 * mean:.1f} %" for level, mean in means)


# ---- Short series ----


def short_series() -> dict[str, tuple[Table, int, int]]:
    """Name to series with dates, horizon and steps of a season."""
    from sktime import datasets

    several = {}
    for name, load, horizon, season in (
        ("Airline", datasets.load_airline, 12, 12),
        ("PBS", datasets.load_PBS_dataset, 12, 12),
        ("Shampoo", datasets.load_shampoo_sales, 6, 12),
        ("Lynx", datasets.load_lynx, 6, 1),
    ):
        values: Any = load()
        index = values.index.to_timestamp()
        several[name] = (_dated(values.to_numpy(float), index), horizon, season)
    for name, file, column, start, step, horizon, season in (
        ("Seatbelts", "seatbelts/seatbelts", "KSI", "1969-01", "MS", 12, 12),
        ("Consumption", "Uschange/Uschange", "Consumption", "1970-01", "QS", 8, 4),
        ("Solar", "solar/solar", "solar_gen", "2021-05", "30min", 24, 48),
    ):
        path = Path(datasets.__file__).parent / "data" / f"{file}.csv"
        values = pandas.read_csv(path)[column].to_numpy(float)
        index = pandas.date_range(start, periods=len(values), freq=step)
        several[name] = (_dated(values, index), horizon, season)
    return several


def _dated(values: np.ndarray, index: Any) -> Table:
    return read_table(pandas.DataFrame({"y": values}, index=index))


def _until(data: Table, end: int) -> Table:
    return replace(data, series=[data.series[0][:end]], index=[data.index[0][:end]])


def short(windows: int, options: dict) -> None:
    """MASE of all models, refitted at times in the last third."""
    rows, tests = [], []
    for name, (data, horizon, season) in short_series().items():
        values = data.series[0][:, 0]
        room = max(len(values) // 3 - horizon + 1, 1)
        stride = max(1, room // windows)
        count = min(windows, -(-room // stride))
        ends = len(values) - horizon - stride * np.arange(count)[::-1]
        forecaster = LinOSSForecaster(horizon=horizon, **options)
        forecaster.fit(_until(data, int(ends[0])))
        test = forecaster.backtest(data, windows=count, stride=stride, refit=True)
        row = {of: test.error("mase", of) for of in ("forecast", "seasonal naive")}
        for model, forecast in others(values, ends, horizon, season).items():
            row[model] = float(np.mean(np.abs(forecast - test.truth[..., 0]) / test.scale))
        print(f"{name}: MASE {_row(row)}; {covered([test])}; {count} windows", flush=True)
        rows.append(row)
        tests.append(test)
    means = pandas.DataFrame(rows).mean().to_dict()
    print(f"Mean MASE of {len(rows)} series: {_row(means)}; {covered(tests)}", flush=True)


def _row(errors: dict[str, float]) -> str:
    return ", ".join(f"{name} {error:.3f}" for name, error in errors.items())


def others(values, ends, horizon, season) -> dict[str, np.ndarray]:
    """Forecasts (windows, horizon) of AutoETS and AutoARIMA, if statsforecast is installed."""
    try:
        models = importlib.import_module("statsforecast.models")
    except ImportError:
        return {}
    if season > _LONGEST_OF_OTHERS:  # AutoETS leaves seasons out, AutoARIMA takes hours
        return {}
    several = {}
    for name in ("AutoETS", "AutoARIMA"):
        model = getattr(models, name)(season_length=season)
        each = [model.forecast(y=values[:end], h=horizon)["mean"] for end in ends]
        several[name] = np.stack(each)
    return several


# ---- Made-up series ----


def drawn_series(random: np.random.Generator, count: int) -> dict[str, np.ndarray]:
    """Months of short series of nine laws."""
    steps, noise = np.arange(count), random.normal(size=(3, count))
    waves = [random.normal() * np.sin(k * np.pi * steps / 6 + random.uniform(0, 6)) for k in (1, 2)]
    season, walk, share = sum(waves), np.cumsum(noise[0]), random.uniform(0.3, 0.9)
    ar, garch, variance = np.zeros(count), np.zeros(count), 1.0
    for i in range(count):
        ar[i] = share * ar[i - 1] + noise[1, i]
        variance = 0.1 + 0.2 * garch[i - 1] ** 2 + 0.7 * variance
        garch[i] = np.sqrt(variance) * noise[2, i]
    growth = 3 + random.uniform(0, 0.02) * steps + 0.2 * season + 0.02 * walk
    return {
        "walk": 100 + walk,
        "autoregression": ar,
        "seasons": 10 + 2 * season + noise[0],
        "trend": 10 + random.uniform(0, 0.2) * steps + noise[0],
        "wandering seasons": 50 + 3 * season + 0.5 * walk + 0.5 * noise[2],
        "growth in percent": np.exp(growth + 0.06 * noise[2]),
        "intermittent": random.poisson(2, count) * (random.random(count) < 0.4).astype(float),
        "heavy tails": 5 + random.standard_t(3, count),
        "GARCH": 5 + garch,
    }


def drawn(repeats: int, options: dict, length: int = 96, horizon: int = 8) -> None:
    """MASE and coverage over many short series, one forecast of each."""
    index = pandas.date_range("2000-01", periods=length, freq="MS")
    rows = []
    for seed in range(repeats):
        for name, values in drawn_series(np.random.default_rng(seed), length).items():
            data = _dated(values, index)
            forecaster = LinOSSForecaster(horizon=horizon, **options)
            test = forecaster.fit(_until(data, length - horizon)).backtest(data, windows=1)
            row = {of: test.error("mase", of) for of in ("forecast", "seasonal naive")}
            row |= {f"in {level} %": np.mean(test.coverage(level)) for level in (80, 95)}
            rows.append({"law": name, **row})
    frame = pandas.DataFrame(rows)
    by_law: Any = frame.groupby("law").mean()
    print(by_law.round(3).to_string())
    means = frame.drop(columns="law").mean().to_dict()
    print(f"Mean MASE and coverage of {len(rows)} drawn series: {_row(means)}", flush=True)


def thousands(options: dict) -> None:
    """2,000 daily series of 100 to 400 points, horizon 14."""
    random, parts = np.random.default_rng(0), []
    for i in range(2000):
        steps = np.arange(random.integers(100, 401))
        wave = 5 + np.sin(2 * np.pi * steps / 7 + random.uniform(0, 6))
        values = np.exp(random.normal()) * (wave + 0.3 * random.normal(size=len(steps)))
        days = pandas.date_range("2023-01-01", periods=len(steps))
        parts.append(pandas.DataFrame({"unique_id": f"s{i}", "ds": days, "y": values}))
    frame = pandas.concat(parts)
    began = time.perf_counter()
    forecaster = LinOSSForecaster(horizon=14, **options).fit(frame)
    fitted = time.perf_counter()
    forecaster.predict(level=80)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"2,000 series, {len(frame):,} points, horizon 14: fitted in {fitted - began:.0f} s, "
        f"forecast in {time.perf_counter() - fitted:.0f} s, {peak:.2f} GB at most",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    names = [*LONG, "short", "drawn", "thousands"]
    parser.add_argument("--set", nargs="*", default=names, choices=names)
    parser.add_argument("--horizon", type=int, nargs="*", help="of long sets")
    parser.add_argument("--steps", type=int, default=0, help="updates of a trained part")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--windows", type=int, default=16, help="of short series")
    parser.add_argument("--repeats", type=int, default=12, help="drawn series of each law")
    parser.add_argument("--data-dir", type=Path, default=Path("data"))
    asked = parser.parse_args()
    options = {"steps": asked.steps, "random_state": asked.seed}
    tests = []
    for name in asked.set:
        if name in LONG:
            tests += long_series(name, asked.data_dir, asked.horizon, options)
    if tests:
        print(f"Long sets, on average: {covered(tests)}")
    if "short" in asked.set:
        short(asked.windows, options)
    if "drawn" in asked.set:
        drawn(asked.repeats, options)
    if "thousands" in asked.set:
        thousands(options)


if __name__ == "__main__":
    main()
