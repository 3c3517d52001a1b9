#!/usr/bin/env bash
# A clean Debian in a temporary folder, made by debootstrap, for scripts that source this file. The script sets `program`,
# its name in messages, then calls make_root. Afterwards `root` is the folder, `inside` runs a command in it and `apt` runs
# apt-get in it. The folder is removed when the script ends.

fail() { echo "$program: $1" >&2; exit "${2:-1}"; }
# Prints the first comment of the script, without its first line.
usage() { sed -n '3,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
say() { echo "[$SECONDS s] $1"; }

make_root() {  # suite, mirror or '', keep: not empty keeps the folder
  suite=$1 mirror=$2 keep=$3
  [ "$(id -u)" -eq 0 ] || fail "needs root: sudo $0 ..." 2
  command -v debootstrap >/dev/null || fail "debootstrap was not found: apt-get install debootstrap" 2
  # shellcheck disable=SC2016
  [ -n "$mirror" ] ||
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | grep -m1 '/debian/\?$' || true)
  [ -n "$mirror" ] || mirror=http://deb.debian.org/debian

  root=$(mktemp -d --tmpdir "trireme-$program.XXXXXX")
  trap clean_root EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  say "debootstrap $suite (minbase)"
  if ! debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$root.log" 2>&1; then
    tail -5 "$root.log" >&2
    fail "debootstrap failed"
  fi
  mount -t proc proc "$root/proc"
  printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"  # starts no services
  chmod +x "$root/usr/sbin/policy-rc.d"
  cp -L /etc/resolv.conf "$root/etc/resolv.conf"
  apt-config dump | grep '^Acquire::\(http\|https\)::' >"$root/etc/apt/apt.conf.d/01machine" || true  # proxies
}

clean_root() {
  local code=$?
  trap - EXIT INT TERM
  rm -f "$root.log"
  if mountpoint -q "$root/proc"; then
    umount "$root/proc" || umount --lazy "$root/proc"
  fi
  if mountpoint -q "$root/proc"; then
    echo "$program: $root/proc is still mounted; the folder is left as it is" >&2
  elif [ -n "$keep" ]; then
    echo "$program: the system is in $root"
  else
    rm -rf --one-file-system "$root"
  fi
  exit "$code"
}

inside() {
  chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}

apt() {
  inside apt-get -qq -o Dpkg::Use-Pty=0 "$@" >"$root/tmp/apt.log" 2>&1 || {
    tail -20 "$root/tmp/apt.log" >&2
    fail "apt-get $* failed"
  }
}
