#!/bin/sh
# The tables of update policies in docs/policy-measurements.md: runs or resumes `trireme study policies` and prints what it found.
#
# Usage: bench/policies.sh [BUILD_FOLDER] [STUDY_FOLDER] [--quick]   (default: build, a temporary folder)
# TRIREME_DATA: the folder with MNIST and SST-2. An hour on an idle machine with two cores; with --quick five minutes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
print_tables_of_study policies "$@"
