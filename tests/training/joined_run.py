"""One of several processes that train together, for the tests to start and to kill.

python joined_run.py COORDINATOR PROCESSES PROCESS DEVICES DIRECTORY [SECONDS A STEP]
"""

import sys
import time

import jax

coordinator, processes, process, devices, directory, *pause = sys.argv[1:]
jax.config.update("jax_num_cpu_devices", int(devices) // int(processes))
if int(processes) > 1:
    jax.distributed.initialize(
        coordinator, int(processes), int(process),
        heartbeat_timeout_seconds=10, shutdown_timeout_seconds=10,
    )  # fmt: skip

import numpy as np  # noqa: E402

import linoss.data  # noqa: E402
from linoss import LinOSS, LinOSSConfig  # noqa: E402
from linoss.training import Classification, Inputs, TrainingConfig, make_mesh, train  # noqa: E402

labels = np.arange(32) % 2
values = np.random.default_rng(0).normal(size=(32, 1, 20)) + labels[:, None, None]
cases = linoss.data.sequences(values, y=labels)
inputs, objective = Inputs.from_sequences(cases), Classification.from_labels(labels)
sizes = LinOSSConfig(in_size=1, out_size=2, hidden_size=4, state_size=4, num_blocks=1, dropout=0.2)
model = LinOSS(sizes, key=jax.random.key(0))
config = TrainingConfig(steps=12, batch_size=8, evaluate_every=3, learning_rate=1e-2)


def report(progress):
    print(progress.step, flush=True)
    time.sleep(float(pause[0]) if pause else 0)


train(
    model,
    inputs,
    objective,
    cases,
    cases,
    config,
    directory=directory,
    resume=True,
    on_progress=report,
    mesh=make_mesh((int(processes), int(devices) // int(processes))),
)
