# What the scripts of this folder share: . "$here/common.sh"

# need FOLDER PROGRAM...: ends the script where one was not built. A program's target is its last name.
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

# use_folder [FOLDER]: sets `work` to the folder, or to a temporary one that goes when the script ends.
use_folder() {
  work=${1:-}
  if [ -n "$work" ]; then
    mkdir -p "$work"
  else
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
  fi
}
