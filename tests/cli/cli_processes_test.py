"""Runs the program as a user would who starts several processes, and kills some. Usage: cli_processes_test.py PROGRAM EXAMPLES_FOLDER [unittest's arguments]"""
import os
import sys
import unittest

import support

support.PROGRAM, support.EXAMPLES = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])

from processes import *    # noqa: E402,F401,F403
from launch import *       # noqa: E402,F401,F403
from four_hosts import *   # noqa: E402,F401,F403
from slurm import *        # noqa: E402,F401,F403
from strangers import *    # noqa: E402,F401,F403
from launch_checkpoints import *  # noqa: E402,F401,F403
from elastic import *      # noqa: E402,F401,F403
from failures import *     # noqa: E402,F401,F403

if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
