# Runs all parts of a script even if one fails. For scripts that source it:
#   part NAME COMMAND...   runs a part; prints when it begins and how it ended
#   end_of_parts           exits with 1 if a part failed, and names the failed parts

script=$(basename "$0" .sh)
failed_parts=()

part() {
  local name=$1 begun=$SECONDS
  shift
  echo "$script: $name begins"
  if "$@"; then
    echo "$script: $name passed after $((SECONDS - begun)) s"
  else
    echo "$script: $name FAILED after $((SECONDS - begun)) s"
    failed_parts+=("$name")
  fi
}

end_of_parts() {
  [ ${#failed_parts[@]} -gt 0 ] || exit 0
  printf -v names ', %s' "${failed_parts[@]}"
  echo "$script: failed: ${names:2}" >&2
  exit 1
}
