"""Runs the program as a user would. Usage: cli_test.py PROGRAM EXAMPLES_FOLDER [unittest's arguments]"""
import os
import sys
import unittest

import support

support.PROGRAM, support.EXAMPLES = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])

from checkpoints import *  # noqa: E402,F401,F403
from errors import *      # noqa: E402,F401,F403
from behaviour import *   # noqa: E402,F401,F403
from endings import *     # noqa: E402,F401,F403
from export import *      # noqa: E402,F401,F403
from graphs import *      # noqa: E402,F401,F403
from plan_spellings import *  # noqa: E402,F401,F403
from predictions import *  # noqa: E402,F401,F403
from epochs import *       # noqa: E402,F401,F403
from policies import *     # noqa: E402,F401,F403
from virtual import *      # noqa: E402,F401,F403

if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
