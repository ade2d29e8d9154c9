"""Sound source localisation: first-order Ambisonics, scenes, data sets, features and networks."""

__all__: list[str] = []
