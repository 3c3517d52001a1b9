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
