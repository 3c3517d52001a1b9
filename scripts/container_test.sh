#!/usr/bin/env bash
# Builds the image of Containerfile from the last commit, and trains and resumes in it as the image's user.
# Neither an engine's daemon nor a registry is used: buildah builds, and debootstrap makes the base image, debian:12.
# Usage: container_test.sh [--mirror URL] [--keep]
#   --mirror  source of Debian's packages (default: that of this machine's apt, or Debian's)
#   --keep    keep the images: buildah images
# Needs root, buildah, debootstrap and about 12 GiB. Exit code 0: it works; 1: not; 2: wrong usage.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/debian_root.sh"

program=container_test
mirror='' keep_images='' keep=''
while [ $# -gt 0 ]; do
  case $1 in
    --mirror) mirror=${2:-}; shift 2 || usage ;;
    --keep) keep_images=1; shift ;;
    *) usage ;;
  esac
done
command -v buildah >/dev/null || fail "buildah was not found: apt-get install buildah" 2
source_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot  # need no privileges of a kernel
readonly BASE=docker.io/library/debian:12 IMAGE=localhost/trireme-test

container=''
on_exit() {
  local code=$?
  [ -z "$container" ] || buildah rm "$container" >/dev/null || true
  [ -n "$keep_images" ] || buildah rmi --force "$IMAGE" "$BASE" >/dev/null 2>&1 || true
  if [ "$code" -eq 0 ]; then clean_root; else (exit "$code") || clean_root; fi  # it reads the exit code
}
make_root bookworm "$mirror" ''
trap on_exit EXIT
# The system becomes the base image, with the machine's proxies in it, but without what make_root needs itself.
umount "$root/proc"
rm -f "$root/usr/sbin/policy-rc.d"
container=$(buildah from scratch)
buildah add --quiet "$container" "$root" / >/dev/null
buildah config --cmd /bin/bash "$container"
buildah commit --quiet --rm "$container" "$BASE" >/dev/null
container=''

say "buildah build"
mkdir "$root/context"
git -C "$source_folder" archive HEAD | tar -x -C "$root/context"
buildah build --pull-never --tag "$IMAGE" --file "$root/context/Containerfile" "$root/context" >"$root.log" 2>&1 || {
  grep -n 'error:\|Error\|FAILED' "$root.log" | head -20 >&2
  tail -20 "$root.log" >&2
  fail "the image was not built"
}
say "$(buildah images --format '{{.Size}}' "$IMAGE")"

container=$(buildah from --pull-never "$IMAGE")
in_image() { buildah run "$container" -- "$@"; }
in_image trireme --version
[ "$(in_image id -u)" = 1000 ] || fail "the image's user is not 1000"
cat >"$root/e.toml" <<'TOML'
name = "in-a-container"
batch = 64
length = "20 steps"
devices = [2]
strategies = ["data"]
[model]
name = "mlp"
[data]
name = "digits"
[optimizer]
kind = "sgd"
learning_rate = 0.1
[checkpoint]
every = "10 steps"
TOML
buildah copy --quiet "$container" "$root/e.toml" /tmp/e.toml >/dev/null
in_image trireme launch -n 2 train /tmp/e.toml --out /tmp/run
in_image trireme train /tmp/e.toml --steps 30 --resume /tmp/run --out /tmp/resumed
say "trained and resumed in the image"
