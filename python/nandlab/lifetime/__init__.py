"""How long flash lasts under a workload: what `nandlab life` asks the engine, and what it says."""
