"""The sizes that decide what a step costs, as one device of a mesh sees them."""

from dataclasses import dataclass
from functools import cached_property

from linoss import _checks
from linoss.nn import LinOSSConfig

NUMBER = 4
"""Bytes of a number."""
TILE, PAD = 64, 16
"""Steps between two states that the kernels keep, and the unit of the rows in their memory."""
SEGMENT = 1024
"""Steps at a time of finding the state before a shard."""
ENGINES = ("native", "sequential")


@dataclass(frozen=True)
class Sizes:
    """A model, a batch and a mesh. In formulas: H, m, L of the config; P real oscillators, which is
    2m with complex projections; b sequences and t steps on each device, n = b t samples."""

    config: LinOSSConfig
    length: int
    batch: int
    devices: tuple[int, int]
    engine: str

    def __post_init__(self) -> None:
        _checks.positive_integer("length", self.length)
        _checks.positive_integer("batch", self.batch)
        _checks.one_of("engine", self.engine, ENGINES)
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
        """Layers of a block: a second one reads backwards."""
        return 2 if self.config.bidirectional else 1

    @property
    def along_batch(self) -> int:
        """Parts of the batch."""
        return self.devices[0]

    @property
    def along_time(self) -> int:
        """Shards of each sequence."""
        return self.devices[1]

    @property
    def sequences(self) -> int:
        """b."""
        return self.batch // self.along_batch

    @property
    def steps(self) -> int:
        """t, those ahead included; sequences are padded to what the mesh divides."""
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
        """Rows of answers that a device gives."""
        if self.config.every is not None:
            return self.sequences * (self.steps // self.config.every)
        return self.sequences * (self.config.horizon or 1)

    @property
    def fused(self) -> bool:
        """Whether the kernels run whole blocks; else XLA does, and sees every product."""
        config = self.config
        return (
            self.engine == "native"
            and config.norm != "layer"
            and config.scheme != "verlet"
            and config.feedthrough != "dense"
            and not config.bidirectional
        )

    @property
    def pools_means(self) -> bool:
        """Whether the answer needs only means of the last features, which a pass finds by the way:
        no gradient of their size comes back."""
        return self.answers == self.sequences and self.config.pooling == "mean"

    @property
    def reads_statistics(self) -> bool:
        """Whether norms ask for means over the whole batch."""
        return self.config.norm in ("batch", "running")

    @cached_property
    def parameters(self) -> int:
        """Of all blocks, the encoder and the head."""
        config, H, P = self.config, self.hidden, self.pairs
        bank = config.state_size * (1 + (config.timestep == "learned") + config.damped)
        through = {"vector": H, "dense": H * H, "none": 0}[config.feedthrough]
        norm = 2 * H if config.norm == "layer" else 0
        block = 2 * P * H + config.bias * P + self.layers * bank + through + norm
        glu = 2 * H * H + config.glu_bias * 2 * H
        encoder, head = (config.in_size + 1) * H, (H + 1) * config.out_size
        return self.blocks * (block + glu) + encoder + head

    @property
    def statistics(self) -> int:
        """Numbers of the norms that are not learned."""
        return 2 * self.hidden * self.blocks if self.reads_statistics else 0


def padded(size: int) -> int:
    """A row in the kernels' memory."""
    return -(-size // PAD) * PAD
