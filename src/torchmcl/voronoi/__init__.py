"""Voronoi cells of the hypotheses, and the densities inside of them."""
