#!/usr/bin/env bash
# Tests Debian packages of Trireme in a clean Debian that debootstrap makes in a temporary folder. Does not build Trireme.
# Usage: package_test.sh [--suite bookworm|trixie] [--mirror URL] [--keep] FILE.deb...
#   --mirror  source of Debian's packages (default: that of this machine's apt, or Debian's)
#   --keep    keep the folder, without its mounts, to inspect it
# Needs root, debootstrap and about 3 GiB in TMPDIR. Exit code 0: every check passed; 1: one failed; 2: wrong usage.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/debian_root.sh"

program=package_test
suite=bookworm mirror='' keep='' debs=()
while [ $# -gt 0 ]; do
  case $1 in
    --suite) suite=${2:-}; shift 2 || usage ;;
    --mirror) mirror=${2:-}; shift 2 || usage ;;
    --keep) keep=1; shift ;;
    -*) usage ;;
    *) debs+=("$1"); shift ;;
  esac
done
[ ${#debs[@]} -gt 0 ] || usage
for deb in "${debs[@]}"; do
  dpkg-deb --info "$deb" >/dev/null 2>&1 || fail "$deb: is not a Debian package" 2
done
make_root "$suite" "$mirror" "$keep"

# -- the packages

mkdir "$root/tmp/packages"
names=() files=() suggested=()
for deb in "${debs[@]}"; do
  cp "$deb" "$root/tmp/packages/"
  names+=("$(dpkg-deb -f "$deb" Package)")
  files+=("/tmp/packages/$(basename "$deb")")
  mapfile -t -O "${#suggested[@]}" suggested < <(dpkg-deb -f "$deb" Suggests | tr ',' '\n' | sed 's/^ *//; s/[ (|].*//; /^$/d')
done
say "apt-get install ${names[*]}"
apt update
apt install --yes --no-install-recommends "${files[@]}"
say "installed: $(inside sh -c 'dpkg-query -W | wc -l') packages, $(du -sxh "$root" | cut -f1)"

# -- checks: functions with one condition each, because set -e has no effect in commands that check calls

passed=0 failed=0
check() {  # name, command...
  local name=$1
  shift
  if "$@" >"$root/tmp/check.log" 2>&1; then
    passed=$((passed + 1))
    say "ok: $name"
  else
    failed=$((failed + 1))
    say "FAILED: $name"
    tail -15 "$root/tmp/check.log" | sed 's/^/    /'
  fi
}
has() { [ -e "$root$1" ]; }
# Debian compresses the manual pages of its packages; CPack does not.
page() { [ -e "$root/usr/share/man/man1/$1.1" ] || [ -e "$root/usr/share/man/man1/$1.1.gz" ]; }

version=$(dpkg-deb -f "${debs[0]}" Version)
is_of_version() { [[ "$(inside trireme --version)" == "trireme ${version%-*}"* ]]; }
check "trireme --version says ${version%-*}" is_of_version
check "trireme doctor" inside trireme doctor

documents=/usr/share/doc/trireme
check "the licence, under Debian's name" has "$documents/copyright"
short_comparison() {
  # shellcheck disable=SC2016  # the last two: every row has run
  inside timeout 300 trireme compare "$documents/examples/mnist.toml" --devices 2 --strategies single,data,pipeline --steps 6 \
    --set data.name=digits --set data.train_limit=768 --set data.test_limit=256 --out /tmp/run --json /tmp/run.json &&
    inside sh -ec 'test -s /tmp/run/report.html; test "$(grep -c "\"status\": *\"ok\"" /tmp/run.json)" -ge 3'
}
check "trireme compare on generated digits" short_comparison

every_page() {
  local verb verbs
  verbs=$(inside trireme --help | sed -n '/^Verbs/,/^Options/s/^  \([a-z][a-z-]*\) .*/\1/p')
  [ -n "$verbs" ] && page trireme || return 1
  for verb in $verbs; do
    page "trireme-$verb" || { echo "no page of $verb"; return 1; }
  done
}
check "man pages of every verb" every_page
completes() {
  inside bash -ec 'source /usr/share/bash-completion/completions/trireme; complete -p trireme' &&
    has /usr/share/zsh/vendor-completions/_trireme && has /usr/share/fish/vendor_completions.d/trireme.fish
}
check "completion for bash, zsh and fish" completes
for file in README.md CHANGELOG.md SECURITY.md docs/plans.md docs/install.md examples/mnist.toml; do
  check "$documents/$file" has "$documents/$file"
done
no_strange_files() { ! inside sh -c "dpkg -L ${names[*]} | grep -E '^/(usr/local|opt|home|build|work|root)(/|\$)'"; }
check "nothing outside Debian's folders" no_strange_files
resolves() { inside sh -c 'ldd /usr/bin/trireme $(find /usr/lib -path "*/trireme/trireme" -type f)' >"$root/tmp/ldd.log" && ! grep 'not found' "$root/tmp/ldd.log"; }
check "every library is found" resolves

if has /usr/include/trireme; then
  say "apt-get install of a compiler and what the package suggests: ${suggested[*]}"
  apt install --yes --no-install-recommends cmake g++ make "${suggested[@]}"
  check "/usr/lib/.../cmake/trireme/triremeConfig.cmake" inside \
    sh -c 'ls /usr/lib/*/cmake/trireme/triremeConfig.cmake /usr/lib/cmake/trireme/triremeConfig.cmake 2>/dev/null | grep -q .'
  compiles() {  # ON or OFF: with libtrireme.a
    inside sh -ec "cmake -S $documents/examples/library -B /tmp/example-$1 -DCMAKE_BUILD_TYPE=Release -Dtrireme_USE_STATIC=$1 &&
                   cmake --build /tmp/example-$1" &&
      inside timeout 300 "/tmp/example-$1/library_example"
  }
  check "a project with find_package(trireme) compiles and runs" compiles OFF
  check "the same with trireme_USE_STATIC" compiles ON
else
  say "no headers in ${names[*]}: find_package(trireme) is not tested"
fi

apt purge --yes "${names[@]}"
leaves_nothing() { ! has /usr/bin/trireme && ! has /usr/share/man/man1/trireme.1 && ! has /usr/include/trireme && ! has "$documents"; }
check "apt-get purge leaves nothing" leaves_nothing

say "$passed checks passed, $failed failed ($suite, ${names[*]} $version)"
[ "$failed" -eq 0 ]
