"""`linoss plan`: what a training step would cost, on machines that need not be there."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from linoss.cli import _options as options
from linoss.cli._machines import _shape
from linoss.cli._output import show_json, show_line, show_table

if TYPE_CHECKING:
    from linoss.nn import LinOSSConfig
    from linoss.planning import Plan

_DEFAULTS = {
    "hidden_size": 64,
    "state_size": 64,
    "num_blocks": 2,
    "scheme": "exact",
    "norm": "batch",
}  # those of the estimators


def plan(
    length: Annotated[int, typer.Option(min=1, help="Steps of a sequence.")],
    batch_size: Annotated[int, typer.Option(min=1, help="Sequences in an update.")] = 32,
    devices: Annotated[
        str, typer.Option(help="So many, or, such as 2x4, 2 parts of a batch times 4 of time.")
    ] = "1",
    memory: Annotated[
        float | None,
        typer.Option(help="Gigabytes of each device: says whether it fits, and what would."),
    ] = None,
    in_size: Annotated[int, typer.Option(min=1, help="Channels of the data.")] = 1,
    out_size: Annotated[int, typer.Option(min=1, help="Classes, numbers or variables.")] = 1,
    task: Annotated[options.Task, typer.Option(help="What to learn.")] = "classification",
    every: options.Every = None,
    horizon: options.Horizon = None,
    hidden_size: options.HiddenSize = None,
    state_size: options.StateSize = None,
    num_blocks: options.NumBlocks = None,
    scheme: options.Scheme = None,
    damped: options.Damped = None,
    bidirectional: options.Bidirectional = None,
    norm: options.Norm = None,
    model_option: options.ModelOption = None,
    engine: Annotated[
        str, typer.Option(help="native, or sequential where the kernels are not built.")
    ] = "native",
    json: options.Json = False,
) -> None:
    """Predict memory, work and communication of a training step.

    By formulas, at once, for each device of a mesh of any size; see docs/scaling.md.
    """
    from linoss import _checks
    from linoss.planning import plan, smallest_mesh

    if memory is not None:
        _checks.positive_number("--memory", memory)
    given = {
        "every": every,
        "horizon": horizon,
        "hidden_size": hidden_size,
        "state_size": state_size,
        "num_blocks": num_blocks,
        "scheme": scheme,
        "damped": damped,
        "bidirectional": bidirectional,
        "norm": norm,
        "model_option": model_option,
    }
    config = _config(task, in_size, out_size, options.parameters(given))
    sizes: dict[str, Any] = {"length": length, "batch": batch_size, "engine": engine}
    found = plan(config, devices=_shape(devices), **sizes)
    fits = None if memory is None else found.memory.total <= 1e9 * memory
    smallest = None
    if memory is not None and not fits:
        smallest = smallest_mesh(config, memory=1e9 * memory, **sizes)
    if json:
        record = _record(found)
        if fits is not None:
            record["fits"] = fits
        if smallest is not None:
            record["smallest_mesh"] = smallest.devices
        show_json(record)
        return
    _show(found)
    if memory is None:
        return
    if fits:
        show_line(f"It fits in {memory:g} GB.")
    elif smallest is None:
        show_line(f"It does not fit in {memory:g} GB, however it is split: the model is too large.")
    else:
        show_line(
            f"It does not fit in {memory:g} GB. The fewest devices on which it does: "
            f"--devices {_words(smallest)}, with {_bytes(smallest.memory.total)} on each."
        )


def _config(task: str, in_size: int, out_size: int, found: dict[str, Any]) -> "LinOSSConfig":
    from linoss.nn import LinOSSConfig

    options.check_task(task, found)
    further = found.pop("model_options", {})
    settings = {**_DEFAULTS, "damped": found.get("scheme") != "verlet", **found}
    if task == "forecasting":
        settings = {"horizon": 24, **settings}
    sizes: dict[str, Any] = {"in_size": in_size, "out_size": out_size, "task": task}
    try:
        return LinOSSConfig(**{**sizes, **settings, **further})
    except TypeError as error:
        raise ValueError(f"--model-option: {error}, expected a setting of LinOSSConfig") from None


def _record(found: "Plan") -> dict[str, Any]:
    """All numbers; of parts also their sum."""
    record = asdict(found)
    for name in ("memory", "flops", "bytes_moved", "bytes_communicated"):
        parts = getattr(found, name)
        record[name] = {**parts._asdict(), "total": parts.total}
    return record


def _show(found: "Plan") -> None:
    parts, shards = found.devices
    title = f"A training step on {parts * shards:,} device" + "s" * (parts * shards > 1)
    if shards > 1:
        title += f", {parts:,} x {shards:,}"
    per = f"{found.sequences:,} x {found.steps:,} steps, {found.parameters:,} weights"
    rows = [("each has", per)]
    for name, words, unit in (
        ("memory", "memory", _bytes),
        ("flops", "operations", _count),
        ("bytes_moved", "to and from memory", _bytes),
        ("bytes_communicated", "sent to others", _bytes),
    ):
        amounts = getattr(found, name)
        rows.append((words, unit(amounts.total)))
        rows += [(f"  {part}", unit(n)) for part, n in amounts._asdict().items() if n]
    show_table(title, ("", "for each device"), rows)


def _words(found: "Plan") -> str:
    parts, shards = found.devices
    return str(parts) if shards == 1 else f"{parts}x{shards}"


def _bytes(amount: float) -> str:
    return _scaled(amount, ("B", "kB", "MB", "GB", "TB", "PB"))


def _count(amount: float) -> str:
    return _scaled(amount, ("", "thousand", "million", "billion", "trillion", "10^15"))


def _scaled(amount: float, units: tuple[str, ...]) -> str:
    place = 0
    while amount >= 999.5 and place < len(units) - 1:
        amount, place = amount / 1000, place + 1
    return f"{amount:.3g} {units[place]}".rstrip()
