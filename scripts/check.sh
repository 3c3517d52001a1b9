#!/usr/bin/env bash
# Checks of a change before it is built: the format of all sources, and clang's checks of changed files (scripts/lint.py explains since when). CI runs
# this before ./test; it takes at most about 4 minutes on 2 cores.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/parts.sh
scripts/setup.sh packages.txt packages-check.txt

# Other versions of clang-format break lines in other places.
format() {
  local tool="" name major=14
  for name in clang-format-$major clang-format; do
    if command -v "$name" >/dev/null && [[ $("$name" --version) == *"version $major."* ]]; then
      tool=$name
      break
    fi
  done
  if [ -z "$tool" ]; then
    echo "check: the sources are formatted by clang-format $major, which was not found (scripts/packages-check.txt): skipped"
    [ -z "${CHECK_STRICT:-}" ]
    return
  fi
  local found
  found=$(git ls-files --cached --others --exclude-standard -- src include tests bench examples | grep -E '\.(cpp|h)$' |
          while read -r file; do [ ! -f "$file" ] || echo "$file"; done |
          xargs -P 2 -n 50 "$tool" --dry-run -Werror 2>&1 | sed -n 's/^\([^:]*\):[0-9]*:[0-9]*: error: .*/\1/p' | sort -u) || true
  [ -n "$found" ] || return 0
  echo "check: not formatted:"
  sed 's/^/  /' <<<"$found"
  echo "check: this formats them: $tool -i" $found
  return 1
}

part format format
part thread-safety scripts/lint.py thread-safety --most 60 --seconds 60
part clang-tidy scripts/lint.py tidy --most 30 --seconds 150
end_of_parts
