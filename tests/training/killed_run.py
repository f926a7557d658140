"""A run for the tests to kill: python killed_run.py DIRECTORY. Goes on where it was."""

import sys
import time

import jax
import numpy as np

import linoss.data
from linoss import LinOSS, LinOSSConfig
from linoss.training import Classification, Inputs, TrainingConfig, train

labels = np.arange(16) % 2
values = np.random.default_rng(0).normal(size=(16, 1, 20)) + labels[:, None, None]
cases = linoss.data.sequences(values, y=labels)
inputs, objective = Inputs.from_sequences(cases), Classification.from_labels(labels)
sizes = LinOSSConfig(in_size=1, out_size=2, hidden_size=4, state_size=4, num_blocks=1)
model = LinOSS(sizes, key=jax.random.key(0))
config = TrainingConfig(steps=40, batch_size=4, evaluate_every=3, learning_rate=1e-2)


def report(progress):
    print(progress.step, flush=True)
    time.sleep(0.02)


train(
    model,
    inputs,
    objective,
    cases,
    cases,
    config,
    directory=sys.argv[1],
    resume=True,
    on_progress=report,
    save_every=0,
)
