"""`linoss plan`: the cost of a training step on any devices."""

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from linoss._settings import MEMORY, TaskName
from linoss.cli import _options as options
from linoss.cli._output import show_json, show_line, show_table

if TYPE_CHECKING:
    from linoss.planning import Plan


def plan(
    length: Annotated[int, typer.Option(min=1, help="Number of steps of a sequence.")],
    devices: Annotated[
        str,
        typer.Option(
            help="Number of devices, or, such as 2x4, 2 parts of the batch times 4 shards of time."
        ),
    ] = "1",
    memory: Annotated[
        float | None,
        typer.Option(
            help="Memory of each device in GB: report whether a step fits, and on how "
            "many devices it would."
        ),
    ] = None,
    keep: Annotated[
        int,
        typer.Option(min=0, help="Bytes kept for the backward pass, memory in linoss fit."),
    ] = MEMORY,
    in_size: Annotated[int, typer.Option(min=1, help="Number of channels.")] = 1,
    out_size: Annotated[
        int, typer.Option(min=1, help="Number of classes, targets or forecast variables.")
    ] = 1,
    task: Annotated[TaskName, typer.Option(help="The task.")] = "classification",
    engine: Annotated[
        Literal["native", "sequential"],
        typer.Option(help="Engine: sequential if the kernels were not built."),
    ] = "native",
    batch_size: Annotated[int | None, typer.Option(help="Cases in a batch.")] = None,
    hidden_size: Annotated[int | None, typer.Option(help="Channels between blocks.")] = None,
    state_size: Annotated[int | None, typer.Option(help="Oscillators in a block.")] = None,
    num_blocks: Annotated[int | None, typer.Option(help="Number of blocks.")] = None,
    horizon: options.Horizon = None,
    assign: options.Set = None,
    json: options.Json = False,
) -> None:
    """Estimate memory, operations and communication of a training step.

    By formulas, for each device of a mesh of any size; see docs/scaling.md.
    """
    if memory is not None and not 0 < memory < math.inf:
        raise typer.BadParameter(f"--memory is {memory}, expected a finite number > 0")
    named = {
        "batch_size": batch_size, "hidden_size": hidden_size, "state_size": state_size,
        "num_blocks": num_blocks, "horizon": horizon,
    }  # fmt: skip
    given = options.given_settings(named, assign)
    parameters = options.parameters_of("linoss", task, given)
    estimator = options.estimator_class("linoss", task)(**parameters)
    config = options.model_of(task, estimator, in_size, out_size)
    from linoss.planning import plan, smallest_mesh

    sizes: dict[str, Any] = {"length": length, "batch": estimator.batch_size, "engine": engine}
    found = plan(config, devices=options.device_shape(devices), keep=keep, **sizes)
    smallest = None
    if memory is not None and found.memory.total - found.memory["kept"] > 1e9 * memory:
        smallest = smallest_mesh(config, memory=1e9 * memory, **sizes)
    if json:
        record = _record(found)
        if memory is not None:
            record["fits"] = found.memory.total <= 1e9 * memory
        if smallest is not None:
            record["smallest_mesh"] = smallest.devices
        show_json(record)
        return
    _show(found)
    if engine == "native" and found.outside_kernels is not None:
        show_line(
            "The native kernels do not cover this model, and plain blocks run: "
            f"{found.outside_kernels}. See docs/native.md."
        )
    if memory is not None:
        show_line(_verdict(found, memory, smallest))


def _verdict(found: "Plan", memory: float, smallest: "Plan | None") -> str:
    """Whether a step fits in that many GB, and otherwise what would."""
    needed = found.memory.total - found.memory["kept"]
    if found.memory.total <= 1e9 * memory:
        return f"It fits in {memory:g} GB."
    if needed <= 1e9 * memory:
        return (
            f"It fits in {memory:g} GB with fewer stored products: {_bytes(needed)} with --keep 0, "
            "which is --set memory=0 of linoss fit."
        )
    if smallest is None:
        return f"It does not fit in {memory:g} GB on any number of devices: the model is too large."
    return (
        f"It does not fit in {memory:g} GB. The fewest devices on which it does: "
        f"--devices {_words(smallest)}, with {_bytes(smallest.memory.total)} on each."
    )


def _record(found: "Plan") -> dict[str, Any]:
    """All numbers, with the sums of their parts."""
    record = asdict(found)
    for name in ("memory", "flops", "bytes_communicated"):
        parts = getattr(found, name)
        record[name] = {**parts, "total": parts.total}
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
        ("bytes_communicated", "sent to others", _bytes),
    ):
        amounts = getattr(found, name)
        rows.append((words, unit(amounts.total)))
        rows += [(f"  {part}", unit(n)) for part, n in amounts.items() if n]
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
