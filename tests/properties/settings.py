"""How many examples each law gets: the whole folder stays well under a minute on a slow machine."""

from hypothesis import HealthCheck, settings

PROGRAMS = settings(max_examples=40, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
DIMS = settings(max_examples=150, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
