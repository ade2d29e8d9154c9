"""The cards of models of tables."""

from collections.abc import Mapping, Sequence
from typing import Any

from torchmcl.sharing.cards import Card, Measure, as_code, as_words
from torchmcl.tabular.columns import Columns

__all__ = ["classifier_card", "regressor_card"]

SHOWN = 12
"""Columns that a card names."""
LONGEST = 80
"""Characters of a name."""


def regressor_card(
    estimator: Any, measures: Mapping[str, float] | None = None, data: str = "", targets: Sequence[str] = ()
) -> Card:
    """The card of a fitted `MCLRegressor`.

    Args:
        estimator: The fitted estimator.
        measures: Numbers by name.
        data: What they were measured on.
        targets: Names of the targets.

    Returns:
        The card.
    """
    model = estimator.model_
    what = ", ".join(targets) or ("directions" if model.directional else f"{model.dim} number(s)")
    calibrated = "calibrated on held-out rows" if estimator.calibration_ is not None else "not calibrated"
    text = (
        f"A distribution of {as_words(what)} for each row of a table: {len(model.factors)} network(s) with "
        f"{estimator.n_hypotheses} scored hypotheses each, loss `{estimator.loss}`. Intervals are {calibrated}.\n\n"
        f"{_columns(estimator, model.columns)}"
    )
    use = (
        'from torchmcl import MCLRegressor\n\nmodel = MCLRegressor.from_pretrained("FOLDER")\n'
        "model.predict(X), model.predict_interval(X, coverage=0.9)"
    )
    found = [Measure(name, value, data) for name, value in (measures or {}).items()]
    title = f"Distribution of {what} (MCLRegressor)"
    return Card(title, "tabular-regression", text, use, _limits("targets"), ("tabular",), found)


def classifier_card(estimator: Any) -> Card:
    """The card of a fitted `MCLClassifier`.

    Args:
        estimator: The fitted estimator.

    Returns:
        The card.
    """
    classes = estimator.classes_.tolist()
    shown = ", ".join(map(_short, classes[:SHOWN])) + (", ..." if len(classes) > SHOWN else "")
    text = (
        f"One of {len(classes)} classes for each row of a table ({shown}), by {estimator.n_hypotheses} networks "
        f"trained together, loss `{estimator.loss}`.\n\n{_columns(estimator, estimator.columns_)}"
    )
    use = (
        'from torchmcl import MCLClassifier\n\nmodel = MCLClassifier.from_pretrained("FOLDER")\n'
        "model.predict(X), model.predict_proba(X)"
    )
    title = f"Classifier of {len(classes)} classes (MCLClassifier)"
    return Card(title, "tabular-classification", text, use, _limits("labels"), ("tabular",))


def _columns(estimator: Any, columns: Columns) -> str:
    count = len(columns.categorical)
    names = [str(name) for name in getattr(estimator, "feature_names_in_", range(count))]
    kinds = zip(names, columns.categorical, strict=True)
    shown = [f"{_short(name)} ({'category' if text else 'number'})" for name, text in kinds][:SHOWN]
    return f"{count} column(s): {', '.join(shown)}{', ...' if count > SHOWN else ''}."


def _short(name: Any) -> str:
    """A name of a table, which may hold anything."""
    return as_code(str(name)[:LONGEST])


def _limits(what: str) -> str:
    return (
        f"The model knows rows like those it was trained on. For rows far outside, its {what} and their coverage are "
        "guesses. `config.json` holds the names of columns and the labels of categories of the training data: look "
        "whether they may be shared."
    )
