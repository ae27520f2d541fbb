"""Real software on simulated devices, and what a power cut leaves of it."""
