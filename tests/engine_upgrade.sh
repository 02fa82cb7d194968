#!/usr/bin/env bash
# tools/engine-upgrade --pin with an npm of our own, in a copy of the files that it changes: all packages or none, and back again.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0 n=0
check() { # name  condition...
  local name=$1
  shift
  n=$((n + 1))
  "$@" || { echo "engine_upgrade: $name"; cat "$tmp/out"; failed=$((failed + 1)); }
}
says() { grep -qF -- "$1" "$tmp/out"; }
mkdir -p "$tmp/tree/tools/gpu" "$tmp/tree/docs" "$tmp/bin" "$tmp/was"
for f in tools/engine-upgrade tools/engine.lock tools/engine-fetch tools/engine-kind tools/gpu/build-cuda THIRD-PARTY.md docs/engine.md; do cp "$here/$f" "$tmp/tree/$f"; done
cp -r "$tmp/tree/." "$tmp/was/"
cat >"$tmp/bin/npm" <<'FAKE'
#!/bin/sh
# npm view NAME version | npm view NAME@VERSION dist.integrity
case $3 in
version) echo 9.1.0 ;;
dist.integrity)
  [ "${MISSING:-none}" != "${2%@*}" ] || exit 1
  printf 'sha512-%s\n' "$(printf %s "$2" | sha512sum | cut -d ' ' -f 1 | tr a-f A-F | basenc --base16 -d | base64 -w0)" ;;
*) exit 1 ;;
esac
FAKE
chmod +x "$tmp/bin/npm"
upgrade() { (cd "$tmp/tree" && env OFFLINE=1 PATH="$tmp/bin:$PATH" "$@") >"$tmp/out" 2>&1; }
same() { diff -r "$tmp/was" "$tmp/tree" >>"$tmp/out"; }
refuses() { ! upgrade "$@"; }
column() { awk -v c="$1" '/^[a-z]/ { print $c }' "$tmp/tree/tools/engine.lock" | sort -u; }

old=$(column 4)
check "a package that the registry has not" refuses env MISSING=@node-llama-cpp/linux-arm64 tools/engine-upgrade --pin 9.0.0
check "is told" says "the registry has no @node-llama-cpp/linux-arm64@9.0.0: nothing was changed"
check "and nothing was" same
check "the newest" upgrade tools/engine-upgrade --pin
check "is pinned in every row" test "$(column 4)" = 9.1.0
check "with a sum of its own each" test "$(column 5 | wc -l)" = "$(column 3 | wc -l)"
locked=$(awk '$1 == "source" { print $5 }' "$tmp/tree/tools/engine.lock")
check "build-cuda names it" grep -q '^package=node-llama-cpp version=9.1.0 ' "$tmp/tree/tools/gpu/build-cuda"
check "by the same sum" grep -qx "sum=$(printf %s "${locked#sha512-}" | base64 -d | od -An -v -tx1 | tr -d ' \n')" "$tmp/tree/tools/gpu/build-cuda"
check "and THIRD-PARTY.md" grep -qF 'node-llama-cpp) 9.1.0 ' "$tmp/tree/THIRD-PARTY.md"
check "comments stay" test "$(grep -c '^#' "$tmp/tree/tools/engine.lock")" = "$(grep -c '^#' "$here/tools/engine.lock")"
check "again" upgrade tools/engine-upgrade --pin 9.1.0
check "is nothing to do" says "engine 9.1.0 is pinned already"
check "back" upgrade tools/engine-upgrade --pin "$old"
check "is the old version" test "$(column 4)" = "$old"
echo "engine_upgrade: $((n - failed)) passed, $failed failed"
[ "$failed" = 0 ]
