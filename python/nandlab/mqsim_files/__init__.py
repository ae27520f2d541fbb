"""MQSim's own configuration and workload files, read and run on nandlab's devices."""
