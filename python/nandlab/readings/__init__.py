"""Readings: what a publication leaves unsaid is searched, not assumed.

`spec` reads `readings.toml` of a study's folder, `simulation` runs what its cells need and keeps
it on disk, `prediction` says what each joint reading predicts, `scoring` compares that with the
reference, and `search` puts all of it together. docs/readings.md describes the file and the terms.
"""
