"""Runs the program as a user would: the tests of one module of this folder.
Usage: cli_test.py PROGRAM EXAMPLES_FOLDER MODULE [unittest's arguments]"""
import importlib
import inspect
import os
import sys
import unittest

import support

support.PROGRAM, support.EXAMPLES = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
module = importlib.import_module(sys.argv[3])
# Only classes of this module: imported classes run in their own module. No loop, because its variable would keep the last class.
globals().update({name: case for name, case in inspect.getmembers(module, inspect.isclass) if case.__module__ == module.__name__})

if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
