#!/usr/bin/env python3
"""shards.py N PROGRAM...: runs the tests of a GoogleTest program in N processes at once, each a part of them. For tests that mostly wait."""
import os
import subprocess
import sys


def main():
    count, program = int(sys.argv[1]), sys.argv[2:]
    shards = [subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               env={**os.environ, "GTEST_TOTAL_SHARDS": str(count), "GTEST_SHARD_INDEX": str(index)})
              for index in range(count)]
    failed = False
    for shard in shards:
        print(shard.communicate()[0], flush=True)
        failed = failed or shard.returncode != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
