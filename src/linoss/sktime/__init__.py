"""The estimators with the interface of sktime; needs the extra `sktime`."""

from linoss._extras import optional

optional("sktime", "linoss.sktime", "sktime")

from linoss.sktime._classifiers import LinOSSClassifier, OscillatorClassifier  # noqa: E402
from linoss.sktime._forecaster import LinOSSForecaster  # noqa: E402

__all__ = ["LinOSSClassifier", "LinOSSForecaster", "OscillatorClassifier"]
