"""`linoss plan`: the memory of a training step on any devices."""

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Option

from linoss._settings import TaskName
from linoss.cli import _options as options
from linoss.cli._output import show_json, show_line, show_table

if TYPE_CHECKING:
    from linoss.planning import Plan


def plan(
    length: Annotated[int, Option(min=1, help="Number of steps of a sequence.")],
    devices: Annotated[
        str,
        Option(
            help="Number of devices, or, such as 2x4, 2 parts of the batch times 4 shards of time."
        ),
    ] = "1",
    device_memory: Annotated[
        float | None,
        Option(metavar="BYTES", help="Of each device, such as 16e9: report whether a step fits."),
    ] = None,
    in_size: Annotated[int, Option(min=1, help="Number of channels.")] = 1,
    out_size: Annotated[
        int, Option(min=1, help="Number of classes, targets or forecast variables.")
    ] = 1,
    task: Annotated[TaskName, Option(help="The task.")] = "classification",
    engine: Annotated[
        Literal["native", "sequential"],
        Option(help="Engine: sequential if the kernels were not built."),
    ] = "native",
    batch_size: Annotated[int | None, Option(help="Cases in a batch.")] = None,
    horizon: options.Horizon = None,
    assign: options.Set = None,
    json: options.Json = False,
) -> None:
    """Estimate the memory of a training step.

    By formulas, for each device of a mesh of any size; see docs/scaling.md.
    """
    memory = math.inf if device_memory is None else device_memory
    if not memory > 0:
        raise typer.BadParameter(f"--device-memory is {memory:g}, expected a number > 0")
    given = options.given_settings({"batch_size": batch_size, "horizon": horizon}, assign)
    parameters = options.parameters_of("linoss", task, given)
    estimator = options.estimator_class("linoss", task)(**parameters)
    config = options.model_of(task, estimator, in_size, out_size)
    from linoss.planning import plan

    sizes: dict[str, Any] = {"length": length, "batch": estimator.batch_size, "engine": engine}
    found = plan(config, devices=options.device_shape(devices), keep=estimator.memory, **sizes)
    needed = found.memory.total - found.memory["kept"]
    if json:
        record = asdict(found) | {"memory": {**found.memory, "total": found.memory.total}}
        if device_memory is not None:
            record["fits"] = found.memory.total <= memory
        show_json(record)
        return
    _show(found)
    if engine == "native" and found.outside_kernels is not None:
        show_line(
            "The native kernels do not cover this model, and plain blocks run: "
            f"{found.outside_kernels}. See docs/native.md."
        )
    if device_memory is None:
        return
    if found.memory.total <= memory:
        show_line(f"It fits in {_bytes(memory)}.")
    elif needed <= memory:
        show_line(
            f"It fits in {_bytes(memory)} with fewer stored products: {_bytes(needed)} with --set "
            "memory=0."
        )
    else:
        show_line(f"It does not fit in {_bytes(memory)}: choose more --devices.")


def _show(found: "Plan") -> None:
    parts, shards = found.devices
    title = f"A training step on {parts * shards:,} device" + "s" * (parts * shards > 1)
    if shards > 1:
        title += f", {parts:,} x {shards:,}"
    per = f"{found.sequences:,} x {found.steps:,} steps, {found.parameters:,} weights"
    rows = [("each has", per)]
    rows.append(("memory", _bytes(found.memory.total)))
    rows += [(f"  {part}", _bytes(amount)) for part, amount in found.memory.items() if amount]
    show_table(title, ("", "for each device"), rows)


def _bytes(amount: float) -> str:
    units, place = ("B", "kB", "MB", "GB", "TB", "PB"), 0
    while amount >= 999.5 and place < len(units) - 1:
        amount, place = amount / 1000, place + 1
    return f"{amount:.3g} {units[place]}"
