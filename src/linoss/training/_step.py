"""The compiled functions: an update of the weights, and the outputs of an evaluation.

Both are module-level functions with everything that differs between runs as arguments, so that runs
with equal shapes share a compiled program.
"""

import inspect
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Float, Int, PRNGKeyArray

from linoss import _programs
from linoss.nn import LinOSS, trainable
from linoss.training._config import TrainingConfig
from linoss.training._loss import Loss

_BLOCK = 1024


class Carry(eqx.Module):
    """The state passed from one update to the next."""

    model: LinOSS
    optimizer: Any
    loss: Float[Array, ""]
    """The sum of the losses since the last record."""
    bad_step: Int[Array, ""]
    """The first step at which loss, gradient or statistics were not finite; -1 if there is none."""
    bad_loss: Float[Array, ""]
    """The loss of that step."""


@dataclass(frozen=True)
class StepSettings:
    """Static arguments of an update."""

    loss: Loss
    clip: bool
    decay: bool
    engine: str
    mesh: Mesh | None = None
    memory: int = 0
    quickly: bool = False
    """Whether to compile with the options of `quickly`."""


def decayed(model: Any) -> Any:
    """The weights with weight decay: all but dynamics, biases, and scale and shift of norms."""
    apart = {"oscillators", "modes", "norm"}

    def decays(path: Any, _: Any) -> bool:
        names = [str(getattr(part, "name", "")) for part in path]
        return names[-1] != "bias" and apart.isdisjoint(names)

    return jax.tree_util.tree_map_with_path(decays, model)


def make_optimizer(
    settings: StepSettings, rates: dict[str, Any], weights: Any
) -> optax.GradientTransformation:
    """Adam, with clipping, weight decay and learning rate.

    Clipping and Adam operate on all weights as one vector, which compiles faster.
    """
    adam = optax.scale_by_adam()
    if settings.clip:
        adam = optax.chain(optax.clip_by_global_norm(rates["clip_norm"]), adam)
    parts: list[optax.GradientTransformation] = [optax.flatten(adam)]
    if settings.decay:
        parts.append(optax.add_decayed_weights(rates["weight_decay"], mask=decayed(weights)))
    parts.append(optax.scale_by_learning_rate(rates["learning_rate"]))
    return optax.chain(*parts)


def first_carry(model: LinOSS, settings: StepSettings) -> Carry:
    """The carry before the first update."""
    return Carry(model, *_beginning(eqx.filter(model, trainable(model)), settings=settings))


@partial(jax.jit, static_argnames=("settings",))  # one program for all arrays
def _beginning(weights: Any, *, settings: StepSettings) -> tuple[Any, Array, Array, Array]:
    """The parts of the first carry other than the model."""
    rates = {"learning_rate": 0.0, "weight_decay": 0.0, "clip_norm": 0.0}
    zero = jnp.zeros((), weights.encoder.weight.dtype)
    state = make_optimizer(settings, rates, weights).init(weights)
    return state, zero, jnp.array(-1, jnp.int32), zero


@partial(jax.jit, static_argnames=("settings",))
def update(
    carry: Carry,
    key: PRNGKeyArray,
    step: Int[Array, ""] | np.int32,
    rates: dict[str, Any],
    arguments: dict[str, Any],
    targets: Any,
    *,
    settings: StepSettings,
) -> tuple[Carry, Float[Array, ""]]:
    """One update, number `step`, and the norm of its gradient before clipping."""
    weights, others = eqx.partition(carry.model, trainable(carry.model))

    def loss(weights: Any) -> tuple[Array, Any]:
        outputs, norms = eqx.combine(weights, others).training_pass(
            **arguments,
            key=jax.random.fold_in(key, step),
            engine=settings.engine,
            mesh=settings.mesh,
            memory=settings.memory,
        )
        return settings.loss(outputs, *targets), norms

    (value, norms), gradient = jax.value_and_grad(loss, has_aux=True)(weights)
    optimizer = make_optimizer(settings, rates, weights)
    change, state = optimizer.update(gradient, carry.optimizer, weights)
    model = eqx.combine(eqx.apply_updates(weights, change), others).with_norms(norms)
    slopes = _one_vector(gradient)
    finite = jnp.isfinite(jnp.concatenate([slopes, _one_vector((value, norms))])).all()
    bad = (carry.bad_step < 0) & ~finite
    after = Carry(
        model=model,
        optimizer=state,
        loss=carry.loss + value,
        bad_step=jnp.where(bad, step, carry.bad_step).astype(jnp.int32),
        bad_loss=jnp.where(bad, value, carry.bad_loss),
    )
    return after, jnp.sqrt(jnp.sum(slopes**2))


@cache
def update_quickly() -> Any:
    """`update`, compiled with the options of `quickly`."""
    given: Any = {"compiler_options": _programs.quickly()}
    return jax.jit(inspect.unwrap(update), static_argnames=("settings",), **given)


def _one_vector(tree: Any) -> Float[Array, " numbers"]:
    """Concatenate all arrays to one vector, which compiles faster."""
    leaves = jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array))
    return jnp.concatenate([jnp.ravel(x) for x in leaves])


@partial(jax.jit, static_argnames=("engine", "mesh"))
def predict_batch(
    model: LinOSS, arguments: dict[str, Any], *, engine: str, mesh: Mesh | None = None
) -> Float[Array, "..."]:
    """The model's outputs for a batch; with a mesh, on all of its devices."""
    outputs = model(**arguments, engine=engine, mesh=mesh)
    if mesh is None:
        return outputs
    return jax.lax.with_sharding_constraint(outputs, NamedSharding(mesh, P()))


@cache
def predict_batch_quickly() -> Any:
    """`predict_batch`, compiled in a third of the time; for native kernels."""
    given: Any = {"compiler_options": {**_programs.quickly(), **_programs.ROUGHLY}}
    return jax.jit(inspect.unwrap(predict_batch), static_argnames=("engine", "mesh"), **given)


class LearningRates:
    """The learning rate of each update: Optax's schedules, computed for a block of updates at a
    time.

    The rates of the first and the last update are not 0.
    """

    def __init__(self, config: TrainingConfig):
        peak, warmup = float(config.learning_rate), int(config.warmup)
        self._schedule = _schedule(peak, warmup, config.steps, config.schedule)
        self._block, self._rates = -1, np.zeros(0)

    def __call__(self, step: int) -> float:
        """The rate of update `step`, counted from 0."""
        block, place = divmod(step, _BLOCK)
        if block != self._block:
            steps = np.arange(block * _BLOCK, (block + 1) * _BLOCK)
            self._rates = np.broadcast_to(np.asarray(self._schedule(steps)), _BLOCK)
            self._block = block
        return float(self._rates[place])


@lru_cache(maxsize=16)  # several models share a schedule
def _schedule(peak: float, warmup: int, steps: int, kind: str) -> Any:
    """The learning rate as a function of updates, as one compiled program."""
    if kind == "cosine":
        schedule = optax.cosine_decay_schedule(peak, max(steps - warmup, 1))
    else:
        schedule = optax.constant_schedule(peak)
    if warmup:
        rise = optax.linear_schedule(peak / (warmup + 1), peak, warmup)
        schedule = optax.join_schedules([rise, schedule], [warmup])
    return jax.jit(schedule)
