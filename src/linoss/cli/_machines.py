"""Devices and processes of `linoss fit`."""

import os
import re
import sys
from dataclasses import dataclass

import typer


@dataclass(frozen=True)
class Machines:
    """The devices, and the role of this process."""

    devices: int | tuple[int, int] | None
    speaks: bool
    """Whether this process prints and writes."""


def join_machines(
    devices: str | None, coordinator: str | None, num_processes: int | None, process_id: int | None
) -> Machines:
    """Create devices and join the other processes, before JAX is used."""
    import jax

    from linoss.training import join_processes

    shape = None if devices is None else device_shape(devices)
    if coordinator is None:
        for option, value in (("--num-processes", num_processes), ("--process-id", process_id)):
            if value is not None:
                raise typer.BadParameter(f"{option} is for several processes, with --coordinator")
        if shape is not None:
            _make_cpu_devices(shape[0] * shape[1])
        return Machines(shape, speaks=True)
    if shape is not None and num_processes:
        total = shape[0] * shape[1]
        if total % num_processes:
            raise typer.BadParameter(
                f"--devices is {devices}, expected a multiple of the {num_processes} processes"
            )
        _make_cpu_devices(total // num_processes)
    _keep_stdout_clean()
    join_processes(coordinator, num_processes, process_id)
    return Machines(shape or (len(jax.devices()), 1), speaks=jax.process_index() == 0)


def _make_cpu_devices(number: int) -> None:
    """Set the number of CPU devices, if JAX is not initialised. Accelerators are not changed."""
    import jax

    try:
        jax.config.update("jax_num_cpu_devices", number)
    except RuntimeError:
        return


def _keep_stdout_clean() -> None:
    """Redirect stdout of C++ libraries to stderr."""
    sys.stdout.flush()
    try:
        stdout, stderr = sys.stdout.fileno(), sys.stderr.fileno()
    except (OSError, ValueError):  # not real files, as in tests
        return
    copy = os.dup(stdout)
    os.dup2(stderr, stdout)
    sys.stdout = open(copy, "w", encoding="utf-8", errors="replace", buffering=1)  # noqa: SIM115


def device_shape(text: str) -> tuple[int, int]:
    """Parse `2` or `2x4`."""
    match = re.fullmatch(r"(\d+)(?:x(\d+))?", text)
    if not match or "0" in (match[1], match[2]):
        raise typer.BadParameter(f"--devices is {text!r}, expected a number, or such as 2x4")
    return int(match[1]), int(match[2] or 1)
