"""The toy experiment of Section 3.4: a distribution over four squares that changes with the time t."""
