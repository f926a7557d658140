"""The sizes that determine the cost of a step, on one device of a mesh."""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import equinox as eqx
import jax

from linoss import _checks
from linoss._declare import check_value
from linoss._settings import Memory
from linoss.kernels import Kept, kept_products, refusal
from linoss.nn import LinOSS, LinOSSConfig, count_parameters

NUMBER = 4
"""Bytes of a number."""
TILE = 64
"""Steps between two states that the kernels store."""
SEGMENT = 1024
"""Steps of a segment in the computation of the state before a shard."""
ENGINES = ("native", "sequential")


@lru_cache(maxsize=8)
def _shapes(config: LinOSSConfig) -> LinOSS:
    """The model as shapes, cached because a search for the smallest mesh tries many."""
    return eqx.filter_eval_shape(LinOSS, config, key=jax.random.key(0))


@dataclass(frozen=True)
class Sizes:
    """A model, a batch and a mesh. In formulas: H, m, L of the config; P real oscillators, which is
    2m with complex projections; b sequences and t steps on each device, n = b t samples."""

    config: LinOSSConfig
    length: int
    batch: int
    devices: tuple[int, int]
    engine: str
    keep: int = 0

    def __post_init__(self) -> None:
        _checks.positive_integer("length", self.length)
        _checks.positive_integer("batch", self.batch)
        _checks.one_of("engine", self.engine, ENGINES)
        check_value("keep", self.keep, Memory)
        parts, shards = self.devices
        _checks.positive_integer("devices", parts)
        _checks.positive_integer("devices", shards)
        if self.batch % parts:
            raise ValueError(
                f"batch is {self.batch}, expected a multiple of {parts}, the devices along it"
            )

    @property
    def hidden(self) -> int:
        """H."""
        return self.config.hidden_size

    @property
    def blocks(self) -> int:
        """L."""
        return self.config.num_blocks

    @property
    def pairs(self) -> int:
        """P, of all layers of a block."""
        copies = 2 if self.config.complex_projections else 1
        return self.layers * copies * self.config.state_size

    @property
    def layers(self) -> int:
        """Layers of a block: 2 if one reads backwards."""
        return 2 if self.config.bidirectional else 1

    @property
    def along_batch(self) -> int:
        """Number of parts of the batch."""
        return self.devices[0]

    @property
    def along_time(self) -> int:
        """Number of shards of each sequence."""
        return self.devices[1]

    @property
    def sequences(self) -> int:
        """b."""
        return self.batch // self.along_batch

    @property
    def steps(self) -> int:
        """t, including the forecast horizon, padded to a multiple of the shards."""
        total = self.length + (self.config.horizon or 0)
        every = self.config.every or 1
        if self.along_time == 1:
            return total
        return -(-total // (self.along_time * every)) * every

    @property
    def samples(self) -> int:
        """n."""
        return self.sequences * self.steps

    @property
    def answers(self) -> int:
        """Rows of outputs on a device."""
        if self.config.every is not None:
            return self.sequences * (self.steps // self.config.every)
        return self.sequences * (self.config.horizon or 1)

    @property
    def model(self) -> LinOSS:
        """The model, with shapes in place of arrays."""
        return _shapes(self.config)

    @property
    def fused(self) -> bool:
        """Whether native kernels run whole blocks; otherwise blocks are plain."""
        return self.engine == "native" and self.outside_kernels is None

    @property
    def outside_kernels(self) -> str | None:
        """The reason why native kernels do not run whole blocks; None if they do."""
        block = eqx.filter_eval_shape(lambda model: model.blocks[0].native(), self.model)
        return refusal(block, irregular=False, time_split=self.along_time > 1)

    @property
    def pools_means(self) -> bool:
        """Whether the head needs only means of the last features, which a native pass computes:
        there is then no gradient of their size."""
        return self.answers == self.sequences and self.config.pooling == "mean"

    @cached_property
    def kept(self) -> list[Kept]:
        """The products that each block stores for the backward pass."""
        return kept_products(
            self.keep if self.fused else 0,
            samples=self.samples,
            hidden=self.hidden,
            pairs=self.pairs // self.layers,
            blocks=self.blocks,
            precision=self.config.precision,
        )

    def numbers_kept(self, product: Kept) -> int:
        """The number of stored numbers of a kind, in all blocks."""
        width = product.width(self.hidden, self.pairs // self.layers)
        return self.samples * width * sum(product in kept for kept in self.kept)

    @property
    def reads_statistics(self) -> bool:
        """Whether norms use means over the whole batch."""
        return self.config.norm in ("batch", "running")

    @cached_property
    def parameters(self) -> int:
        """Number of trained parameters of encoder, blocks and head."""
        return count_parameters(self.model)

    @cached_property
    def statistics(self) -> int:
        """Number of statistics of norms, which are not trained."""
        return count_parameters(self.model, buffers=True) - self.parameters
