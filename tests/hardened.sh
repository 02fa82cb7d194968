#!/usr/bin/env bash
# The program is linked and compiled as Debian hardens its own: position-independent, addresses resolved at the start and then
# read-only, no executable stack, checked stacks and buffers.
#   tests/hardened.sh BINARY...
set -u
passed=0 failed=0
check() { # NAME, then a condition
  local name=$1
  shift
  if "$@" >/dev/null; then passed=$((passed + 1)); else
    failed=$((failed + 1))
    echo "  FAIL  hardened: $file: $name"
  fi
}
has() { grep -qE "$1" <<<"$2"; }
lacks() { ! has "$1" "$2"; }

for file; do
  head=$(readelf -hW "$file") segments=$(readelf -lW "$file") dynamic=$(readelf -dW "$file") symbols=$(readelf --dyn-syms -W "$file")
  check "position-independent" has 'Type: +DYN' "$head"
  check "marked as such" has 'FLAGS_1.*PIE' "$dynamic"
  check "resolves everything at the start" has 'FLAGS.*(BIND_NOW|NOW)' "$dynamic"
  check "read-only after relocation" has 'GNU_RELRO' "$segments"
  check "no executable stack" has 'GNU_STACK.* RW +0x' "$segments"
  check "no segment to write and execute" lacks 'LOAD.* RWE ' "$segments"
  check "stack protector" has '__stack_chk_fail' "$symbols"
  check "checked functions of glibc (FORTIFY)" has '__(v?snprintf|memcpy|memset|read|vfprintf|fprintf)_chk' "$symbols"
done
echo "hardened: $passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
