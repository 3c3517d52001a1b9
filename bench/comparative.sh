#!/bin/sh
# The tables of the study "comparative" in docs/studies.md: runs or resumes it and prints what it found.
#
# Usage: bench/comparative.sh [BUILD_FOLDER] [STUDY_FOLDER] [--quick]   (default: build, a temporary folder)
# TRIREME_DATA: the folder with the data sets. 70 minutes on an idle machine with two cores.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
print_tables_of_study comparative "$@"
