# SPDX-License-Identifier: Apache-2.0
"""Runs a command and prints what it cost: wall seconds, processor seconds, peak KiB resident.

usage: measure.py COMMAND [ARGUMENT...]

The command's own output goes to the file that MEASURE_OUTPUT names, or nowhere. Exit status: the
command's. Processor time is user and system, of the command and of all it waited for.
"""
import os
import resource
import subprocess
import sys
import time


def main() -> int:
    with open(os.environ.get("MEASURE_OUTPUT", os.devnull), "wb") as output:
        begin = time.monotonic()
        status = subprocess.run(sys.argv[1:], stdout=output, stderr=subprocess.STDOUT).returncode
        elapsed = time.monotonic() - begin
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{elapsed:.6f} {usage.ru_utime + usage.ru_stime:.6f} {usage.ru_maxrss}")
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
