#!/bin/sh
# Runs MQSim and nandlab on one device and the same workloads, and prints a Markdown table. MQSim is a
# binary of your own: nothing is built or fetched. docs/speed.md says what the figures mean.
#
#   MQSIM=/path/to/MQSim scripts/compare-mqsim.sh [OPTIONS]
#   scripts/compare-mqsim.sh /path/to/MQSim [OPTIONS]
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
python=$here/../.venv/bin/python
[ -x "$python" ] || python=$(command -v python3) || {
    echo "compare-mqsim.sh: error: no python3 was found" >&2
    exit 2
}
exec "$python" "$here/compare_mqsim.py" "$@"
