# Functions for the scripts of this folder: . "$here/common.sh"

# need FOLDER PROGRAM...: ends the script if a program was not built. The last name of a program is its target.
need() {
  folder=$1
  shift
  for program in "$@"; do
    if [ ! -x "$folder/$program" ]; then
      echo "$program was not found in '$folder': build it with cmake --build $folder --target $(basename "$program")" >&2
      exit 2
    fi
  done
}

# use_folder [FOLDER]: sets `work` to the folder, or to a temporary one that is removed when the script ends.
use_folder() {
  work=${1:-}
  if [ -n "$work" ]; then
    mkdir -p "$work"
  else
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
  fi
}

# print_tables_of_study NAME [BUILD_FOLDER] [STUDY_FOLDER] [--quick]: runs or resumes a study of examples/studies and prints the tables that
# peers/NAME_table.py makes of it.
print_tables_of_study() {
  build=${2:-$here/../build}
  need "$build" trireme
  use_folder "${3:-}"
  "$build/trireme" study "$here/../examples/studies/$1.study.toml" ${4:-} --data-dir "$TRIREME_DATA" --out "$work/$1" >&2
  /usr/bin/python3 -B "$here/peers/$1_table.py" "$work/$1/study.json"
}
