"""Forecasts beside simple ones, on data at hand.

    python benchmarks/forecasts.py                     # short series, generated ones, many series
    python benchmarks/forecasts.py --set drawn         # many short series of known laws
    python benchmarks/forecasts.py --set thousands     # 2,000 series, with peak memory
    python benchmarks/forecasts.py --set weather --data-dir DATA   # WTH.csv, the paper's split
    python benchmarks/forecasts.py --set bound --data-dir DATA     # seasons fitted to its test part

Forecasts of short and generated series begin at times of their last third, and all models are
fitted again at each, to what is known then. Of weather, the forecaster is fitted once, to the
training part. Settings are the defaults but for --steps and the sizes. Needs
`pip install ".[benchmark]"`.
"""

import argparse
import importlib
import itertools
import os
import resource
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas

from linoss import LinOSSForecaster
from linoss.data import Table, read_table, table
from linoss.forecasting import Backtest, SeasonalTrend
from linoss.forecasting._seasonal_trend import Clock, median_fit

SMALL = {"hidden_size": 16, "state_size": 16, "num_blocks": 1, "random_state": 0}
WEATHER_HORIZONS = (24, 96, 336, 720)
STRETCHES = (24, 48, 96, 168, 336)
_RIDGE = 1.0
_LONGEST_OF_OTHERS = 24


def short_series() -> dict[str, tuple[Table, int, int]]:
    """Name to series with dates, horizon and steps of a season."""
    from sktime import datasets

    found = {}
    for name, load, horizon, season in (
        ("Airline", datasets.load_airline, 12, 12),
        ("PBS", datasets.load_PBS_dataset, 12, 12),
        ("Shampoo", datasets.load_shampoo_sales, 6, 12),
        ("Lynx", datasets.load_lynx, 6, 1),
    ):
        values: Any = load()
        found[name] = (_dated(values.to_numpy(float), values.index.to_timestamp()), horizon, season)
    for name, file, column, start, step, horizon, season in (
        ("Seatbelts", "seatbelts/seatbelts", "KSI", "1969-01", "MS", 12, 12),
        ("Consumption", "Uschange/Uschange", "Consumption", "1970-01", "QS", 8, 4),
        ("Solar", "solar/solar", "solar_gen", "2021-05", "30min", 24, 48),
    ):
        path = Path(datasets.__file__).parent / "data" / f"{file}.csv"
        values = pandas.read_csv(path)[column].to_numpy(float)
        index = pandas.date_range(start, periods=len(values), freq=step)
        found[name] = (_dated(values, index), horizon, season)
    return found


def _dated(values: np.ndarray, index: Any) -> Table:
    return table(pandas.DataFrame({"y": values}, index=index))


def generated() -> dict[str, tuple[Table, int, int]]:
    """A daily wave that grows, and a random walk."""
    random = np.random.default_rng(0)
    hours = pandas.date_range("2024-01-01", periods=1500, freq="h")
    steps = np.arange(1500)
    wave = (10 + 0.01 * steps) * (2 + np.sin(2 * np.pi * steps / 24)) + random.normal(size=1500)
    walk = 100 + np.cumsum(random.normal(size=1500))
    return {
        name: (table(pandas.DataFrame({"y": values}, index=hours)), 24, 24)
        for name, values in (("Growing wave", wave), ("Walk", walk))
    }


def drawn_series(random: np.random.Generator, count: int) -> dict[str, np.ndarray]:
    """Months of short series of eight kinds."""
    time, noise = np.arange(count), random.normal(size=(3, count))
    waves = [random.normal() * np.sin(k * np.pi * time / 6 + random.uniform(0, 6)) for k in (1, 2)]
    season, walk, share = sum(waves), np.cumsum(noise[0]), random.uniform(0.3, 0.9)
    ar = np.zeros(count)
    for i in range(count):
        ar[i] = share * ar[i - 1] + noise[1, i]
    growth = 3 + random.uniform(0, 0.02) * time + 0.2 * season + 0.02 * walk
    return {
        "walk": 100 + walk,
        "autoregression": ar,
        "seasons": 10 + 2 * season + noise[0],
        "trend": 10 + random.uniform(0, 0.2) * time + noise[0],
        "wandering seasons": 50 + 3 * season + 0.5 * walk + 0.5 * noise[2],
        "growth in percent": np.exp(growth + 0.06 * noise[2]),
        "intermittent": random.poisson(2, count) * (random.random(count) < 0.4).astype(float),
        "heavy tails": 5 + random.standard_t(3, count),
    }


def drawn(repeats: int, options: dict, length: int = 96, horizon: int = 8) -> None:
    """The share of values in intervals, and MASE, over many short series, one forecast of each."""
    found: dict[str, list[np.ndarray]] = {}
    for seed in range(repeats):
        for name, values in drawn_series(np.random.default_rng(seed), length).items():
            index = pandas.date_range("2000-01", periods=length, freq="MS")
            data = _dated(values, index)
            forecaster = LinOSSForecaster(horizon=horizon, **options)
            forecaster.fit(cut(data, length - horizon))
            test = forecaster.backtest(data, windows=1)
            row = [np.mean(test.coverage(level)) for level in (80, 95)]
            row += [test.error("mase", of) for of in ("forecast", "seasonal naive")]
            found.setdefault(name, []).append(np.array(row))
    found["all"] = [row for rows in found.values() for row in rows]
    for name, rows in found.items():
        low, high, error, naive = np.mean(rows, axis=0)
        print(
            f"{name}: covered 80 %: {low:.3f}, 95 %: {high:.3f}; MASE {error:.3f}, "
            f"seasonal naive {naive:.3f}; {len(rows)} series"
        )


def cut(data: Table, end: int) -> Table:
    """The first steps of one series."""
    return replace(data, series=[data.series[0][:end]], index=[data.index[0][:end]])


def compare(data: Table, horizon: int, season: int, windows: int, options: dict) -> dict:
    """MASE of all models from several times in the last third, and the coverage of intervals."""
    values = data.series[0][:, 0]
    room = max(len(values) // 3 - horizon + 1, 1)
    stride = max(1, room // windows)
    windows = min(windows, -(-room // stride))
    last = len(values) - horizon
    ends = last - stride * np.arange(windows)[::-1]
    began = time.perf_counter()
    forecaster = LinOSSForecaster(horizon=horizon, **options)
    forecaster.fit(cut(data, int(ends[0])))
    seconds = time.perf_counter() - began
    forecaster.set_params(past=forecaster.fitted_.past)  # programs of one shape for all fits
    found: Backtest = forecaster.backtest(data, windows=windows, stride=stride, refit=True)
    rows = {
        name: found.error("mase", of)
        for name, of in (
            ("linoss", "forecast"),
            ("seasonal naive", "seasonal naive"),
            ("seasons", "seasons"),
        )
    }
    for name, forecast in others(values, ends, horizon, season).items():
        errors = np.abs(forecast - found.truth[..., 0]) / found.scale
        rows[name] = float(np.mean(errors))
    covered = {level: float(np.nanmean(found.coverage(level))) for level in found.intervals}
    return {"mase": rows, "coverage": covered, "seconds": seconds, "windows": windows}


def others(values, ends, horizon, season) -> dict[str, np.ndarray]:
    """Forecasts (windows, horizon) of other models."""
    found = {"ridge": [ridge(values[:end], horizon, max(2 * season, 8)) for end in ends]}
    try:
        models = importlib.import_module("statsforecast.models")
    except ImportError:
        return {name: np.stack(each) for name, each in found.items()}
    for name in ("AutoETS", "AutoARIMA"):
        if season > _LONGEST_OF_OTHERS:  # AutoETS leaves seasons out, AutoARIMA takes hours
            continue
        model = getattr(models, name)(season_length=season)
        found[name] = [model.forecast(y=values[:end], h=horizon)["mean"] for end in ends]
    return {name: np.stack(each) for name, each in found.items()}


def ridge(past: np.ndarray, horizon: int, lags: int) -> np.ndarray:
    """A linear direct model: each step ahead by ridge regression on the last values."""
    lags = min(lags, (len(past) - horizon) // 2)
    mean, deviation = past.mean(), past.std() or 1.0
    scaled = (past - mean) / deviation
    rows = np.lib.stride_tricks.sliding_window_view(scaled, lags + horizon)
    x, y = np.c_[rows[:, :lags], np.ones(len(rows))], rows[:, lags:]
    weights = np.linalg.solve(x.T @ x + _RIDGE * np.eye(lags + 1), x.T @ y)
    return np.r_[scaled[-lags:], 1] @ weights * deviation + mean


def weather(horizon: int, options: dict) -> None:
    """WTH.csv: 70, 10 and 20 percent; errors are scaled by deviations of the training part."""
    path = Path(os.environ["LINOSS_DATA"]) / "WTH" / "WTH.csv"
    data = read_table(path)
    values, index = data.series[0], data.index[0]
    train, test, past = int(0.7 * len(values)), int(0.2 * len(values)), 720
    deviation = values[:train].std(axis=0)
    share = (len(values) - test - train) / (len(values) - test)
    forecaster = LinOSSForecaster(horizon=horizon, past=past, validation_fraction=share, **options)
    began = time.perf_counter()
    forecaster.fit(cut(data, len(values) - test))
    seconds = time.perf_counter() - began
    start = len(values) - test - past
    part = replace(data, series=[values[start:]], index=[index[start:]])
    found = forecaster.backtest(part, windows=10**6, stride=24)
    errors = {
        of: float(np.mean(np.abs(f - found.truth) / deviation)) for of, f in found.forecasts.items()
    }
    ends = [end for end in STRETCHES if end < horizon] + [horizon]
    for of in ("forecast", "seasons"):
        each = np.mean(np.abs(found.forecasts[of] - found.truth) / deviation, axis=(0, 2))
        parts = [each[a:b].mean() for a, b in itertools.pairwise([0, *ends])]
        texts = [f"to {end} {part:.4f}" for end, part in zip(ends, parts, strict=True)]
        print(f"weather 720 -> {horizon}, {of} by steps ahead: {', '.join(texts)}", flush=True)
    errors["ridge"] = weather_ridge(values, train, start, horizon, deviation, found.truth)
    texts = [f"{name} {error:.4f}" for name, error in errors.items()]
    covered = [f"{each:g} %: {np.mean(found.coverage(each)):.3f}" for each in found.intervals]
    print(
        f"weather {past} -> {horizon}, scaled MAE: {', '.join(texts)}; "
        f"covered {', '.join(covered)}; "
        f"{len(found.truth)} windows, fitted in {seconds:.0f} s",
        flush=True,
    )


def weather_bound(horizon: int) -> None:
    """The error of trend and seasons if they are fitted to the test part itself."""
    data = read_table(Path(os.environ["LINOSS_DATA"]) / "WTH" / "WTH.csv")
    values, index = data.series[0], data.index[0]
    train, start = int(0.7 * len(values)), len(values) - int(0.2 * len(values))
    deviation, none = values[:train].std(axis=0), np.zeros((len(values), 0))
    clock, found = Clock.of([index], None, calendar=True), []
    for trend in (False, True):
        fitted = SeasonalTrend.fit(clock, index[:train], values[:train], none[:train], trend=trend)
        own = replace(fitted, start=float(clock.numbers(index)[start]))
        terms = own.terms(index[start:], none[start:])
        each = np.stack([median_fit(terms, column) for column in values[start:].T], axis=1)
        errors = [
            np.abs(values[start:] - terms @ coefficients) / deviation
            for coefficients in (fitted.coefficients, each)
        ]
        ends = np.arange(len(terms) - horizon, -1, -24)
        found.append([np.mean([e[end : end + horizon].mean() for end in ends]) for e in errors])
    for name, (outside, inside) in zip(("seasons", "seasons and a trend"), found, strict=True):
        print(f"weather, {name}: fitted to training {outside:.4f}, to the test part {inside:.4f}")


def weather_ridge(values, train, start, horizon, deviation, truth) -> float:
    """A linear direct model of each variable on the last 720 hours, every third."""
    mean, errors = values[:train].mean(axis=0), []
    for column in range(values.shape[1]):
        scaled = (values[:, column] - mean[column]) / deviation[column]
        begins = np.arange(720, train - horizon, 6)
        x = np.stack([scaled[b - 720 : b : 3] for b in begins])
        y = np.stack([scaled[b : b + horizon] for b in begins])
        x = np.c_[x, np.ones(len(x))]
        weights = np.linalg.solve(x.T @ x + 100 * np.eye(x.shape[1]), x.T @ y)
        last = len(values) - start - horizon
        ends = start + np.arange(last, 719, -24)[::-1]
        asked = np.c_[np.stack([scaled[e - 720 : e : 3] for e in ends]), np.ones(len(ends))]
        real = (truth[..., column] - mean[column]) / deviation[column]
        errors.append(np.mean(np.abs(asked @ weights - real)))
    return float(np.mean(errors))


def many(options: dict) -> None:
    """100 series of 1,000 points, horizon 24."""
    random = np.random.default_rng(0)
    hours = pandas.date_range("2024-01-01", periods=1000, freq="h")
    parts = []
    for i in range(100):
        phase, size = random.uniform(0, 6), np.exp(random.normal())
        wave = 5 + np.sin(2 * np.pi * np.arange(1000) / 24 + phase)
        noise = 0.3 * random.normal(size=1000)
        parts.append(
            pandas.DataFrame({"unique_id": f"s{i}", "ds": hours, "y": size * (wave + noise)})
        )
    began = time.perf_counter()
    LinOSSForecaster(horizon=24, **options).fit(pandas.concat(parts))
    print(f"100 series of 1,000 points, horizon 24: fitted in {time.perf_counter() - began:.0f} s")


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
    parser.add_argument(
        "--set",
        nargs="*",
        default=["short", "generated", "many"],
        choices=["short", "generated", "many", "drawn", "thousands", "weather", "bound"],
    )
    parser.add_argument("--horizon", type=int, nargs="*", default=WEATHER_HORIZONS)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--windows", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=12, help="drawn series of each kind")
    parser.add_argument("--only", nargs="*", help="names of sets")
    parser.add_argument("--data-dir", help="directory of WTH/WTH.csv, by default LINOSS_DATA")
    asked = parser.parse_args()
    if asked.data_dir is not None:
        os.environ["LINOSS_DATA"] = asked.data_dir
    options = {**SMALL, "steps": asked.steps}
    sets = {}
    for name, make in (("short", short_series), ("generated", generated)):
        sets |= make() if name in asked.set else {}
    sets = {name: each for name, each in sets.items() if asked.only is None or name in asked.only}
    results = {}
    for name, (data, horizon, season) in sets.items():
        results[name] = compare(data, horizon, season, asked.windows, options)
        row = ", ".join(f"{m} {e:.3f}" for m, e in results[name]["mase"].items())
        covered = ", ".join(f"{k:g} %: {v:.2f}" for k, v in results[name]["coverage"].items())
        print(
            f"{name}: MASE {row}; covered {covered}; {results[name]['windows']} windows, "
            f"fitted in {results[name]['seconds']:.0f} s",
            flush=True,
        )
    if results:
        models = max((r["mase"] for r in results.values()), key=len)
        whole = [r for r in results.values() if r["mase"].keys() == models.keys()]
        means = {m: np.mean([r["mase"][m] for r in whole]) for m in models}
        for level in (80.0, 95.0):
            shares = [r["coverage"][level] for r in results.values() if level in r["coverage"]]
            print(f"covered by {level:g} % on average: {np.mean(shares):.3f}")
        print(
            f"mean MASE of {len(whole)} sets: "
            + ", ".join(f"{m} {e:.3f}" for m, e in means.items())
        )
    if "many" in asked.set:
        many(options)
    if "drawn" in asked.set:
        drawn(asked.repeats, options)
    if "thousands" in asked.set:
        thousands(options)
    if "bound" in asked.set:
        weather_bound(max(asked.horizon))
    if "weather" in asked.set:
        for horizon in asked.horizon:
            weather(horizon, options)


if __name__ == "__main__":
    main()
