"""The memory of a training step on a mesh of devices.

In formulas: H, m, L of the config; P real oscillators of a block, 2m with complex projections; p
weights; b sequences of t steps on each device, n = b t samples. The compiler cannot be asked: the
devices need not exist, and it does not see into kernels. Tests compare with its analysis of steps
that it can compile.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax

from linoss import _checks
from linoss._declare import check_value
from linoss._settings import MEMORY
from linoss._settings import Memory as MemorySetting
from linoss.kernels import TILE, Kept, kept_products, padded, refusal, tiles
from linoss.nn import LinOSS, LinOSSConfig, count_parameters

_NUMBER = 4  # bytes


class Amounts(dict[str, int]):
    """Amounts by name."""

    @property
    def total(self) -> int:
        """The sum of all parts."""
        return sum(self.values())


@dataclass(frozen=True)
class Plan:
    """The memory of one training step (forward, backward, Adam) on each device of a mesh."""

    devices: tuple[int, int]
    """Number of parts of the batch, and of shards of time."""
    parameters: int
    """Number of trained weights; every device has all of them."""
    sequences: int
    """Number of sequences on each device."""
    steps: int
    """Steps of each sequence on each device, including padding."""
    memory: Amounts
    """Peak bytes: `weights` with Adam's averages and statistics of norms, before and after the
    update; the `batch` and its targets; `features` between blocks and their gradients; stored
    `states` of oscillators; `shards`, what a split of time adds; `workspace` of blocks; products
    that native blocks have `kept` for the backward pass."""
    outside_kernels: str | None
    """The reason why native kernels do not cover whole blocks; None if they do."""


def plan(
    config: LinOSSConfig,
    *,
    length: int,
    batch: int,
    devices: int | tuple[int, int] = 1,
    engine: str = "native",
    keep: int = MEMORY,
) -> Plan:
    """The memory of a training step on each device, by formulas: nothing is computed or compiled.

    **Arguments:**

    - `config`: the model.
    - `length`: steps of a sequence, at regular times without missing samples.
    - `batch`: sequences of a step, on all devices.
    - `devices`: number along the batch, or `(batch, time)`; they need not exist.
    - `engine`: `"native"` or `"sequential"`.
    - `keep`: bytes of intermediate results that an update may keep, `memory` of
      [`linoss.training.train`][].

    ```python
    >>> import linoss
    >>> from linoss.planning import plan
    >>> config = linoss.LinOSSConfig(in_size=4, out_size=2, hidden_size=64, state_size=64)
    >>> plan(config, length=100_000_000, batch=8, devices=(8, 512)).steps
    195313

    ```
    """
    if not isinstance(config, LinOSSConfig):
        raise ValueError(f"config is a {type(config).__name__}, expected a linoss.LinOSSConfig")
    if config.mixer != "linoss":
        raise ValueError(
            f"mixer is {config.mixer!r}, expected 'linoss': there are no formulas for others"
        )
    _checks.positive_integer("length", length)
    _checks.positive_integer("batch", batch)
    _checks.one_of("engine", engine, ("native", "sequential"))
    check_value("keep", keep, MemorySetting)
    parts, shards = devices if isinstance(devices, tuple) else (devices, 1)
    _checks.positive_integer("devices", parts)
    _checks.positive_integer("devices", shards)
    if batch % parts:
        raise ValueError(f"batch is {batch}, expected a multiple of {parts}, the devices along it")
    s = _Sizes(config, length + (config.horizon or 0), batch, (parts, shards), engine, keep)
    return Plan((parts, shards), s.parameters, s.sequences, s.steps, _memory(s), s.outside_kernels)


def _block_and_parameters(config: LinOSSConfig) -> tuple[Any, int, int]:
    """A block's arrays for kernels, as shapes, and the numbers of parameters and of statistics."""
    model = eqx.filter_eval_shape(LinOSS, config, key=jax.random.key(0))
    parameters = count_parameters(model)
    block = eqx.filter_eval_shape(lambda model: model.blocks[0].native(), model)
    return block, parameters, count_parameters(model, buffers=True) - parameters


class _Sizes:
    """The sizes that determine the cost of a step, on one device of a mesh."""

    def __init__(
        self,
        config: LinOSSConfig,
        length: int,
        batch: int,
        devices: tuple[int, int],
        engine: str,
        keep: int,
    ):
        self.config, (parts, self.shards) = config, devices
        self.split = self.shards > 1
        self.H, self.L = config.hidden_size, config.num_blocks
        self.layers = 2 if config.bidirectional else 1
        pairs = (2 if config.complex_projections else 1) * config.state_size
        self.P = self.layers * pairs
        block, self.parameters, self.statistics = _block_and_parameters(config)
        every = config.every
        self.outside_kernels = refusal(block, irregular=False, time_split=self.split)
        self.fused = engine == "native" and self.outside_kernels is None
        unit = self.shards * (every or 1)  # padded to a multiple of it
        self.steps = -(-length // unit) * (every or 1) if self.split else length
        self.sequences = batch // parts
        self.samples = self.sequences * self.steps
        self.rows = self.sequences * (self.steps // every if every else config.horizon or 1)
        """Rows of outputs."""
        self.pools_means = self.rows == self.sequences and config.pooling == "mean"
        """Whether the head needs only means of the last features, which a native pass computes."""
        sizes = {"samples": self.samples, "hidden": self.H, "pairs": pairs, "blocks": self.L}
        keep = keep if self.fused else 0
        kept = kept_products(keep, **sizes, precision=config.precision)
        widths = [
            product.width(self.H, pairs) for block in kept for product in Kept if product in block
        ]
        self.kept = self.samples * sum(widths)
        """Stored numbers of products, in all blocks."""


def _memory(s: _Sizes) -> Amounts:
    n, H, P, config = s.samples, s.H, s.P, s.config
    # Gradients share the memory of the values after the update.
    weights = 2 * (3 * s.parameters + s.statistics)
    # Targets are not split in time. For forecasting, the horizon is appended to a copy of the
    # whole sequences.
    labels = s.rows * (1 if config.every is None else s.shards)
    labels *= 1 if config.task == "classification" else config.out_size
    copies = 1 if config.horizon is None else 1 + s.shards
    # The input of each block, and the gradients before and after the current one; in bidirectional
    # models, also the output of the second layer, and two more gradients.
    features = s.L + 1 + (s.fused and not s.pools_means)
    features += s.L + 2 if s.fused and s.layers == 2 else 0
    features = features * n * H + 2 * s.rows * config.out_size
    if s.fused:
        # Weights in both orders; gradients and a tile of each of up to 16 concurrent sequences.
        states = s.L * s.sequences * tiles(s.steps) * 2 * P
        h, p = padded(H), padded(P)
        workspace = 4 * h * (p + h)
        workspace += min(s.sequences, 16) * (2 * h * (p + h) + 64 * (6 * h + 4 * p))
    else:
        # Those of one block at a time. The 14 was counted in compiled programs.
        states = s.sequences * -(-s.steps // (4 * TILE)) * 2 * P
        workspace = n * ((17 if config.norm == "layer" else 14) * H + 3 * P)
    parts = {
        "weights": weights,
        "batch": copies * n * config.in_size + 2 * labels,
        "features": features,
        "states": states,
        "shards": n * P if s.split else 0,
        "workspace": workspace,
        "kept": s.kept,
    }
    return Amounts({name: _NUMBER * amount for name, amount in parts.items()})
