"""Why MQSim and nandlab differ on MQSim's own files: prose of the page that compares them."""

REASONS = """
## Why they differ
"""

BEFORE = """
## What this comparison mended
"""
