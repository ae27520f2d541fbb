"""Candidates side by side on a workload of one's own: request, study, table, words."""
