"""The mixers by name, and the settings of each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jaxtyping import PRNGKeyArray

from linoss._declare import Declared
from linoss._settings import MixerName
from linoss.nn._cde import LogNeuralCDE, NeuralCDE, NeuralRDE
from linoss.nn._layer import LinOSSLayer
from linoss.nn._lru import LRULayer
from linoss.nn._mamba import MambaLayer
from linoss.nn._recurrent import GRULayer, LSTMLayer
from linoss.nn._s4d import S4DLayer
from linoss.nn._s5 import S5Layer, check_pairs
from linoss.nn._s6 import S6Layer

if TYPE_CHECKING:
    from linoss.nn._config import LinOSSConfig


@dataclass(frozen=True)
class MixerKind:
    """How to make a mixer from the settings of a model."""

    layer: Callable[..., Any]
    """(hidden_size, key, **arguments) -> mixer; CDEs also take in_size."""
    settings: Mapping[str, str]
    """Its settings in `LinOSSConfig`, with the corresponding arguments of `layer`."""
    irregular: bool = True
    """Whether it supports irregular times."""
    backward: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that differ for a second mixer that reads backwards."""
    follows: bool = False
    """Whether it is a CDE, in place of blocks."""
    check: Callable[["LinOSSConfig"], None] | None = None
    """Raises for inconsistent settings."""

    def make(self, config: "LinOSSConfig", *, key: PRNGKeyArray, **changes: Any) -> Any:
        """Make the mixer of a block, or the CDE in place of blocks."""
        own = {name: getattr(config, setting) for setting, name in self.settings.items()}
        sizes = {"in_size": config.in_size} if self.follows else {}
        return self.layer(config.hidden_size, key=key, **{**own, **sizes, **changes})

    @property
    def foreign(self) -> frozenset[str]:
        """The settings that only other mixers have."""
        known = {name for kind in MIXERS.values() for name in kind.settings}
        return frozenset(known | ({*_OF_BLOCKS} if self.follows else set())) - {*self.settings}


def _own(*names: str) -> dict[str, str]:
    return {name: name for name in names}


_OF_BLOCKS = ("num_blocks", "norm", "dropout", "glu_bias", "bidirectional")
_FIELD = ("field_width", "field_depth", "field_scale", "solver_steps")
_WINDOWS = ("signature_depth", "signature_steps")

MIXERS: dict[MixerName, MixerKind] = {
    "linoss": MixerKind(
        LinOSSLayer,
        {
            **_own(
                *("state_size", "scheme", "parameterization", "max_stiffness", "damped"),
                *("min_radius", "timestep", "complex_projections", "feedthrough", "bias"),
            ),
            "stiffness_init": "init",
        },
        backward={"feedthrough": "none"},
    ),
    "lru": MixerKind(LRULayer, _own("state_size"), irregular=False),
    "s5": MixerKind(
        S5Layer,
        _own("state_size", "state_blocks"),
        check=lambda config: check_pairs("s5", config.state_size, config.state_blocks),
    ),
    "s4d": MixerKind(
        S4DLayer, _own("state_size"), check=lambda config: check_pairs("s4d", config.state_size)
    ),
    "s6": MixerKind(S6Layer, _own("state_size")),
    "mamba": MixerKind(MambaLayer, _own("state_size", "conv_size", "expansion"), irregular=False),
    "lstm": MixerKind(LSTMLayer, {}, irregular=False),
    "gru": MixerKind(GRULayer, {}, irregular=False),
    "ncde": MixerKind(NeuralCDE, _own(*_FIELD), follows=True),
    "nrde": MixerKind(NeuralRDE, _own(*_FIELD, *_WINDOWS), irregular=False, follows=True),
    "log-ncde": MixerKind(LogNeuralCDE, _own(*_FIELD, *_WINDOWS), irregular=False, follows=True),
}
"""All mixers, by name."""


def check_mixer(config: "LinOSSConfig", settings: Mapping[str, Declared]) -> None:
    """Raise if a setting that only other mixers have was changed, or if the mixer's own settings
    are inconsistent."""
    kind = MIXERS[config.mixer]
    for name in sorted(kind.foreign):
        value = getattr(config, name)
        if value != settings[name].default:
            raise ValueError(
                f"{name} is {value!r}, but mixer {config.mixer!r} has no such setting; its own: "
                f"{', '.join(kind.settings) or 'none'}"
            )
    if kind.check is not None:
        kind.check(config)
