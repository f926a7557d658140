"""Adapters: estimators with the interface of another library, which wrap those of this one."""

import functools
import inspect
from typing import Any, ClassVar

from linoss._declare import documented


class Adapter:
    """An adapter, before the base class of the other library.

    A subclass with `wrapped` has the parameters of that estimator, documented. Its `__init__` calls
    that of the estimator, then that of the last of its base classes.
    """

    wrapped: ClassVar[type[Any]]
    """The class of the wrapped estimator, `estimator_`."""
    get_params: Any  # of the other library

    def __init_subclass__(cls, wrapped: Any = None):
        super().__init_subclass__()
        if wrapped is None:
            return

        base: Any = cls.__bases__[-1]

        @functools.wraps(wrapped.__init__)
        def initialise(self: Any, **values: Any) -> None:
            wrapped.__init__(self, **values)
            base.__init__(self)

        settings: Any = {"__signature__": inspect.signature(wrapped.__init__)}
        initialise.__dict__.update(settings)
        cls.wrapped, cls.__init__ = wrapped, initialise
        documented(cls, wrapped)

    @classmethod
    def small(cls) -> dict[str, Any]:
        """Small settings, for the estimator checks of the other library."""
        small = {"n_oscillators": 16, "hidden_size": 8, "state_size": 8, "num_blocks": 1}
        small |= {"steps": 2, "batch_size": 4, "n_models": 1, "horizon": 5, "past": 8}
        kind: Any = cls
        return {name: small[name] for name in kind().get_params() if name in small}


class PredictingAdapter(Adapter):
    """An adapter of a classifier, a regressor or a transformer."""

    def _arrays(self, X: Any) -> Any:
        """The cases as arrays `(channels, time)`."""
        return X

    def _fit(self, X: Any, y: Any = None) -> Any:
        self.estimator_ = self.wrapped(**self.get_params(deep=False)).fit(self._arrays(X), y)
        return self

    def _predict(self, X: Any) -> Any:
        return self.estimator_.predict(self._arrays(X))

    def _predict_proba(self, X: Any) -> Any:
        return self.estimator_.predict_proba(self._arrays(X))
