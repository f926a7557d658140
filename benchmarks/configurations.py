"""The six sizes that the published runs trained at, and what a training step needs."""

from dataclasses import dataclass

import jax

import linoss


@dataclass(frozen=True)
class Size:
    """Widths of one configuration."""

    batch: int
    length: int
    in_size: int
    hidden_size: int
    state_size: int
    num_blocks: int
    out_size: int
    every: int | None = None

    def model(self, key: jax.Array) -> linoss.LinOSS:
        """A LinOSS-IM model of that size, as in the published runs."""
        config = linoss.LinOSSConfig.published(
            in_size=self.in_size,
            out_size=self.out_size,
            hidden_size=self.hidden_size,
            state_size=self.state_size,
            num_blocks=self.num_blocks,
            task="classification" if self.every is None else "regression",
            every=self.every,
        )
        return linoss.LinOSS(config, key=key)

    def batch_of_data(self, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Random inputs, and targets for the loss."""
        u = jax.random.normal(key, (self.batch, self.length, self.in_size))
        if self.every is None:
            return u, jax.random.randint(key, (self.batch,), 0, self.out_size)
        return u, jax.random.uniform(key, (self.batch, self.length // self.every, self.out_size))


SIZES = {
    "heartbeat": Size(32, 405, 62, 16, 16, 6, 2),
    "ethanol": Size(32, 1751, 3, 16, 16, 4, 4),
    "worms": Size(4, 17984, 7, 128, 64, 2, 5),
    "motor": Size(32, 3000, 64, 128, 16, 2, 2),
    "scp1": Size(32, 896, 7, 128, 256, 6, 2),
    "ppg": Size(4, 49920, 7, 16, 64, 6, 1, every=128),
}
