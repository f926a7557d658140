"""The compiled functions: an update of the weights, and the outputs of an evaluation.

Both are module-level functions with everything that differs between runs as arguments, so that runs
with equal shapes share a compiled program.
"""

import inspect
import math
from dataclasses import dataclass
from functools import cache, partial
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
from linoss.training._objectives import Loss


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
def compiled(program: Any, engine: str) -> Any:
    """`update` or `predict_batch`; for native kernels, which do most of the work, compiled in half
    or a third of the time."""
    if engine != "native":
        return program
    options = _programs.quickly() | ({} if program is update else _programs.ROUGHLY)
    names = [
        n for n, p in inspect.signature(program).parameters.items() if p.kind == p.KEYWORD_ONLY
    ]
    given: Any = {"compiler_options": options}
    return jax.jit(inspect.unwrap(program), static_argnames=names, **given)


def learning_rate(config: TrainingConfig, step: int) -> float:
    """The learning rate of update `step`, from 0; that of the first and the last is not 0."""
    peak, warmup = float(config.learning_rate), config.warmup
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    if config.schedule == "constant":
        return peak
    part = (step - warmup) / max(config.steps - warmup, 1)
    return peak * (1 + math.cos(math.pi * part)) / 2
