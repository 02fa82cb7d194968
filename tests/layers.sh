#!/usr/bin/env bash
# The layering checker finds what it should: each row is a file, a line in it, and whether that is allowed.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0 n=0

row() { # allowed|refused  file  line
  rm -rf "$tmp/src"
  mkdir -p "$tmp/src/$(dirname "$2")"
  printf '%s\n' "$3" >"$tmp/src/$2"
  if "$here/tools/check-layers" "$tmp/src" >"$tmp/out" 2>&1; then got=allowed; else got=refused; fi
  n=$((n + 1))
  [ "$got" = "$1" ] || { echo "layers: $2: '$3' was $got, expected $1"; cat "$tmp/out"; failed=$((failed + 1)); }
}

row allowed base/a.c '#include "base/err.h"'
row allowed cli/a.c '#include "hw/machine.h"'
row refused base/a.c '#include "gguf/model.h"'
row refused gguf/a.c '#include "hw/machine.h"'
row refused hw/a.c '#include "gguf/model.h"'
row refused memory/a.c '#include "plan/plan.h"'
row refused base/a.c '#include "err.h"'
row refused attic/a.c 'int x;'
row refused engine/attic/a.c 'int x;'
row allowed engine/probe/a.c '#include "engine/vgpu/vgpu.h"'
row refused engine/vgpu/a.c '#include "engine/probe/probe.h"'
row refused engine/probe/a.c '#include "engine/process/loader.h"'
row allowed server/http/a.c '#include "server/front.h"'
row allowed server/server.c '#include "server/api/calls.h"'
row refused server/http/a.c '#include "server/api/calls.h"'
row refused fit/a.c '#include "calibrate/calibrate.h"'
row refused server/a.c '#include "calibrate/calibrate.h"'
row allowed calibrate/a.c '#include "fit/fit.h"'
row refused cli/a.c '#include "llama.h"'
row allowed engine/a.c '#include "llama.h"'
row refused cli/a.c '#include <ggml.h>'
row refused hw/a.cpp 'int x;'
row refused engine/llama/a.cpp 'int x;'
row allowed engine/llama/bridge.cpp 'int x;'
row refused hw/detect.c 'int x = nvmlInit_v2();'
row allowed hw/nvml.c 'int x = nvmlInit_v2();'
row allowed hw/detect.c '/* nvmlInit_v2 is called elsewhere */'
row refused gguf/a.c 'void f(void) { printf("x"); }'
row allowed gguf/a.c 'void f(void) { snprintf(b, 1, "printf(%d)", 1); }'
row allowed cli/a.c 'void f(void) { printf("x"); }'
row refused hw/a.c 'void f(void) { exit(1); }'
row refused gguf/a.c 'void f(void) { fprintf(stderr, "x"); }'
row refused gguf/a.c 'void f(void) { fputs("x", stderr); }'
row refused engine/probe/a.c 'void f(void) { _exit(1); }'
row allowed engine/process/process.c 'void f(void) { _exit(1); }'
row refused engine/llama/isolated.c 'void f(void) { _exit(1); }'
row refused plan/a.c 'void f(void) { vr_now_ms(); }'
row refused memory/a.c 'void f(void) { fopen("x", "r"); }'
row allowed memory/a.c 'void f(void) { vr_model_open_count(1); }'

rm -rf "$tmp/src"
mkdir -p "$tmp/src/base" "$tmp/src/hw"
echo 'int x;' | tee "$tmp/src/base/a.c" >"$tmp/src/hw/a.c"
n=$((n + 1))
! "$here/tools/check-layers" "$tmp/src" >/dev/null || { echo "layers: two files of one name were allowed"; failed=$((failed + 1)); }

# twice: allowed|refused  line  line of another room
twice() {
  echo "$2" >"$tmp/src/base/a.c"
  echo "$3" >"$tmp/src/hw/b.c"
  if "$here/tools/check-layers" "$tmp/src" >"$tmp/out" 2>&1; then got=allowed; else got=refused; fi
  n=$((n + 1))
  [ "$got" = "$1" ] || { echo "layers: '$2' and '$3' were $got, expected $1"; cat "$tmp/out"; failed=$((failed + 1)); }
}
rm "$tmp/src/hw/a.c"
twice refused 'struct vr_part {' 'struct vr_part {'
twice refused 'struct vr_stage {' 'enum vr_stage { VR_FIRST };'
twice allowed 'struct vr_part {' 'struct vr_part *part;'
twice allowed 'static struct part {' 'static struct part {'

echo "layers: $((n - failed)) passed, $failed failed"
[ "$failed" = 0 ]
