"""scikit-learn estimators for tables."""
