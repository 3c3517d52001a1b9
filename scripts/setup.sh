#!/usr/bin/env bash
# Installs the packages of packages.txt that are missing. Changes nothing and uses no network if all are installed.
# Usage: setup.sh [LIST...]: lists of packages in this folder; default: packages.txt.
set -euo pipefail

folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# -gt 0 ] || set -- packages.txt
mapfile -t wanted < <(cd "$folder" && sed -e 's/#.*//' -e 's/[[:space:]]*$//' -e '/^$/d' "$@")

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  echo "setup: this system has no apt. Install the equivalents of the packages in scripts/$1 with its own" \
       "package manager; CMake will say which are missing." >&2
  exit 0
fi

# One dpkg-query for all packages; its output does not contain an unknown package.
installed=$(dpkg-query --show --showformat '${Package} ${db:Status-Status}\n' "${wanted[@]}" 2>/dev/null || true)
missing=()
for package in "${wanted[@]}"; do
  grep -qx "$package installed" <<<"$installed" || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "setup: packages are missing, and this is neither root nor is there sudo. Ask an administrator to run:" >&2
    echo "  apt-get install ${missing[*]}" >&2
    exit 0
  fi
  as_root=(sudo)
fi

echo "setup: installing with apt-get: ${missing[*]}" >&2
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 --quiet)
if ! { "${apt[@]}" update && "${apt[@]}" install --yes --no-install-recommends "${missing[@]}"; } >&2; then
  echo "setup: apt-get failed (see above). Check the network and the package sources, or install by hand:" >&2
  echo "  apt-get install ${missing[*]}" >&2
  exit 1
fi
