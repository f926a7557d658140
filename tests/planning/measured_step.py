"""A training step as the trainer compiles it, and, run as a program, the memory that it takes.

`python measured_step.py SETTINGS`, JSON with `config`, `length`, `batch`, `devices` and `keep`,
prints the peak of memory during a step, in bytes above what the process held before it.
"""

import ctypes
import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import linoss
from linoss.training import make_mesh
from linoss.training._objectives import Loss
from linoss.training._step import StepSettings, first_carry, update


def arguments_of(config, length, batch, devices, engine="native", keep=0):
    """What an update is called with; those that depend on the batch as shapes."""
    mesh = make_mesh(devices)
    model = linoss.LinOSS(config, key=jax.random.key(0))
    loss = Loss("cross-entropy" if config.task == "classification" else "squared")
    settings = StepSettings(loss, clip=True, decay=True, engine=engine, mesh=mesh, memory=keep)
    rates = {"learning_rate": 1e-3, "weight_decay": 0.01, "clip_norm": 1.0}
    one_for_all = (first_carry(model, settings), jax.random.key(1), jnp.int32(0), rates)

    def shape(*sizes, dtype=jnp.float32, axes=("batch",)):
        return jax.ShapeDtypeStruct(sizes, dtype, sharding=NamedSharding(mesh, P(*axes)))

    axes = ("batch", "time") if config.horizon is None else ("batch",)
    u = shape(batch, length, config.in_size, axes=axes)
    if config.task == "classification":
        targets = (shape(batch, dtype=jnp.int32), shape(batch))
    else:
        rows = config.horizon if config.every is None else length // config.every
        middle = () if rows is None else (rows,)
        targets = (shape(batch, *middle, config.out_size),) * 2
    everywhere = NamedSharding(mesh, P())
    placed = jax.tree.map(lambda x: jax.device_put(x, everywhere), one_for_all)
    return (*placed, {"u": u}, targets), settings


def compile_step(config, length, batch, devices, engine="native"):
    arguments, settings = arguments_of(config, length, batch, devices, engine)
    return update.lower(*arguments, settings=settings).compile()


def status(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(field))
    return int(line.split()[1]) * 1024


def peak_of_a_step(config, length, batch, devices, keep):
    arguments, settings = arguments_of(config, length, batch, devices, keep=keep)
    step = update.lower(*arguments, settings=settings).compile()

    def fill(x):
        return jax.device_put(np.zeros(x.shape, x.dtype), x.sharding)

    *ready, inputs, targets = arguments
    everything = (*ready, *jax.tree.map(fill, (inputs, targets)))
    jax.block_until_ready(everything)
    ctypes.CDLL(None).malloc_trim(0)  # what compiling has left over would be used again
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = status("VmRSS")
    result, _ = jax.block_until_ready(step(*everything))
    peak = status("VmHWM") - before
    assert result.bad_step == -1
    return peak


if __name__ == "__main__":
    options = json.loads(sys.argv[1])
    shape = tuple(options["devices"])
    jax.config.update("jax_num_cpu_devices", shape[0] * shape[1])
    config = linoss.LinOSSConfig(**options["config"])
    print(peak_of_a_step(config, options["length"], options["batch"], shape, options["keep"]))
