"""Adapters: estimators with the interface of another library, which wrap those of this one."""

import functools
import inspect
from typing import Any, ClassVar, TypeVar

from linoss._declare import documented

_Class = TypeVar("_Class", bound=type)


class Face:
    """An adapter for another library, whose base class comes last."""

    inside: ClassVar[type[Any]]
    """The class of the wrapped estimator."""
    small: ClassVar[dict[str, Any]]
    """Small settings for the estimator checks of the other library."""
    get_params: Any  # of the other library


class FaceOfCases(Face):
    """An adapter for classifiers and regressors."""

    def _fit(self, X: Any, y: Any = None) -> Any:
        self.estimator_ = self.inside(**self.get_params(deep=False)).fit(X, y)
        return self

    def _predict(self, X: Any) -> Any:
        return self.estimator_.predict(X)

    def _predict_proba(self, X: Any) -> Any:
        return self.estimator_.predict_proba(X)


def face(kind: _Class) -> _Class:
    """Class decorator: give an adapter the parameters of its settings, with their documentation.

    Its `__init__` calls that of its settings, then that of the last of its base classes.
    """
    settings = kind.__init__

    @functools.wraps(settings)
    def begin(self: Any, **values: Any) -> None:
        settings(self, **values)
        kind.__bases__[-1].__init__(self)

    setattr(begin, "__signature__", inspect.signature(settings))  # noqa: B010
    setattr(kind, "__init__", begin)  # noqa: B010
    return documented(kind)
