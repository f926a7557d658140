"""The mixers by name, one file for each."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast

from jaxtyping import PRNGKeyArray

from linoss._declare import Declared
from linoss._settings import MixerName
from linoss.nn.mixers._cde import NeuralCDE, NeuralRDE
from linoss.nn.mixers._linoss import LinOSSLayer
from linoss.nn.mixers._lru import LRULayer
from linoss.nn.mixers._recurrent import GatedLayer
from linoss.nn.mixers._s4 import S4Layer
from linoss.nn.mixers._s5 import S5Layer, check_pairs
from linoss.nn.mixers._selective import MambaLayer, S6Layer

if TYPE_CHECKING:
    from linoss.nn._config import LinOSSConfig

_VARIANTS = ("brackets", "diagonal", "gru")
_OF_BLOCKS = ("num_blocks", "norm", "dropout", "glu_bias", "bidirectional")


@dataclass(frozen=True)
class MixerKind:
    """How to make a mixer from the settings of a model."""

    layer: Callable[..., Any]
    """(hidden_size, key, **settings) -> mixer, with the settings of `LinOSSConfig` that it names;
    CDEs also take in_size."""
    irregular: bool = True
    """Whether it supports irregular times."""
    backward: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that differ for a second mixer that reads backwards."""
    follows: bool = False
    """Whether it is a CDE, in place of blocks."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Settings that are arguments of another name, or of `**options`."""
    check: Callable[["LinOSSConfig"], None] | None = None
    """Raises for inconsistent settings."""

    @cached_property
    def settings(self) -> Mapping[str, str]:
        """Its settings in `LinOSSConfig`, with the corresponding arguments of `layer`."""
        shared = ("hidden_size", "in_size", "key", "oscillator_options", *_VARIANTS)
        names = inspect.signature(self.layer).parameters
        return {**{name: name for name in names if name not in shared}, **self.renamed}

    @classmethod
    def of(cls, mixer: "MixerName | Callable[..., Any]") -> "MixerKind":
        """The mixer with a name, or a class of a user.

        The arguments of the class besides `hidden_size` and `key` are settings of `LinOSSConfig`;
        those with a default may have other names. With an attribute
        `supports_irregular_times = True` it is used for irregular times.
        """
        if isinstance(mixer, str):
            return MIXERS[cast(MixerName, mixer)]
        known = {name for kind in MIXERS.values() for name in kind.settings}
        renamed = {}
        for name, parameter in inspect.signature(mixer).parameters.items():
            if name in known:
                renamed[name] = name
            elif name not in ("hidden_size", "key") and parameter.default is parameter.empty:
                raise ValueError(
                    f"mixer is {mixer}, whose argument {name} is not a setting of LinOSSConfig; "
                    "give it a default"
                )
        kind = cls(mixer, bool(getattr(mixer, "supports_irregular_times", False)))
        vars(kind)["settings"] = renamed
        return kind

    def make(self, config: "LinOSSConfig", *, key: PRNGKeyArray, backward: bool = False) -> Any:
        """Make the mixer of a block, or the CDE in place of blocks."""
        own = {name: getattr(config, setting) for setting, name in self.settings.items()}
        sizes = {"in_size": config.in_size} if self.follows else {}
        changes = self.backward if backward else {}
        return self.layer(config.hidden_size, key=key, **{**own, **sizes, **changes})

    @property
    def foreign(self) -> frozenset[str]:
        """The settings that only other mixers have."""
        known = {name for kind in MIXERS.values() for name in kind.settings}
        return frozenset(known | ({*_OF_BLOCKS} if self.follows else set())) - {*self.settings}


def _pairs(mixer: str) -> Callable[["LinOSSConfig"], None]:
    return lambda config: check_pairs(mixer, config.state_size, config.state_blocks)


_OSCILLATORS = ("state_size", "scheme", "parameterization", "max_stiffness", "damped")
_OSCILLATORS += ("min_radius", "timestep")

MIXERS: dict[MixerName, MixerKind] = {
    "linoss": MixerKind(
        LinOSSLayer,
        renamed={**{name: name for name in _OSCILLATORS}, "stiffness_init": "init"},
        backward={"feedthrough": "none"},
    ),
    "lru": MixerKind(LRULayer, irregular=False),
    "s5": MixerKind(S5Layer, check=_pairs("s5")),
    "s4d": MixerKind(partial(S4Layer, diagonal=True), check=_pairs("s4d")),
    "s4": MixerKind(S4Layer, check=_pairs("s4")),
    "s6": MixerKind(S6Layer),
    "mamba": MixerKind(MambaLayer, irregular=False),
    "lstm": MixerKind(GatedLayer, irregular=False),
    "gru": MixerKind(partial(GatedLayer, gru=True), irregular=False),
    "ncde": MixerKind(NeuralCDE, follows=True),
    "nrde": MixerKind(NeuralRDE, irregular=False, follows=True),
    "log-ncde": MixerKind(partial(NeuralRDE, brackets=True), irregular=False, follows=True),
}
"""All mixers, by name."""


def check_mixer(config: "LinOSSConfig", settings: Mapping[str, Declared]) -> None:
    """Raise if a setting that only other mixers have was changed, or if the mixer's own settings
    are inconsistent."""
    kind = MixerKind.of(config.mixer)
    for name in sorted(kind.foreign):
        value = getattr(config, name)
        if value != settings[name].default:
            raise ValueError(
                f"{name} is {value!r}, but mixer {config.mixer!r} has no such setting; its own: "
                f"{', '.join(kind.settings) or 'none'}"
            )
    if kind.check is not None:
        kind.check(config)
