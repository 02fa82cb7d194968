#!/usr/bin/env bash
# tools/engine-fetch with an npm of our own: what it accepts, what it refuses, and that it leaves nothing half done.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0 n=0

check() { # name  condition...
  local name=$1
  shift
  n=$((n + 1))
  "$@" || { echo "engine_fetch: $name"; cat "$tmp/out" 2>/dev/null; failed=$((failed + 1)); }
}
says() { grep -qF -- "$1" "$tmp/out"; }
is_clean() { [ ! -d "$tmp/build/engine" ] || [ -z "$(find "$tmp/build/engine" -mindepth 1 -maxdepth 1 -name '.*')" ]; }
not() { ! "$@"; }
calls() { [ "$(wc -l <"$tmp/calls")" = "$1" ]; }

# Three packages: libraries, the same for Vulkan, and a source with a git bundle inside.
mkdir -p "$tmp/npm" "$tmp/bin" "$tmp/pack/package/bins/linux-x64" "$tmp/repo"
for f in libllama.v9.so libggml.b9.so libggml-base.so libllama-common.so libggml-cpu-x64.so; do
  echo "$f" >"$tmp/pack/package/bins/linux-x64/$f"
done
echo addon >"$tmp/pack/package/bins/linux-x64/addon.node"
echo licence >"$tmp/pack/package/LICENSE"
tar -czf "$tmp/npm/libs.tgz" -C "$tmp/pack" package
echo extra >"$tmp/pack/package/bins/linux-x64/libggml-vulkan.so"
tar -czf "$tmp/npm/vulkan.tgz" -C "$tmp/pack" package
echo 13 >"$tmp/pack/package/bins/linux-x64/libggml-cuda.so"
tar -czf "$tmp/npm/cuda.tgz" -C "$tmp/pack" package
mkdir -p "$tmp/ext/package/bins/linux-x64-cuda-12"
echo 12 >"$tmp/ext/package/bins/linux-x64-cuda-12/libggml-cuda.so"
cp "$tmp/pack/package/LICENSE" "$tmp/ext/package/"
tar -czf "$tmp/npm/cuda-ext.tgz" -C "$tmp/ext" package
(
  cd "$tmp/repo"
  git init -q .
  for f in include/llama.h ggml/include/ggml.h ggml/src/ggml-impl.h ggml/src/ggml-backend-impl.h ggml/src/ggml-rpc/x.cpp \
    src/llama-ext.h src/secret.cpp common/fit.h tools/mtmd/mtmd.h vendor/x.h LICENSE licenses/y AUTHORS; do
    mkdir -p "$(dirname "$f")"
    echo "$f" >"$f"
  done
  git add .
  git -c user.name=t -c user.email=t@t commit -qm all
  mkdir -p "$tmp/src/package/llama"
  git bundle create -q "$tmp/src/package/llama/gitRelease.bundle" HEAD
)
tar -czf "$tmp/npm/source.tgz" -C "$tmp/src" package

cat >"$tmp/bin/npm" <<'FAKE'
#!/bin/sh
# npm pack --silent --ignore-scripts NAME@VERSION
eval "what=\${$#}"
echo "$what" >>"$FAKE/calls"
[ ! -e "$FAKE/broken" ] || { echo "npm error code E404" >&2; exit 1; }
while [ -e "$FAKE/slow" ]; do sleep 0.05; done
cp "$FAKE/npm/${what%@*}.tgz" ./${what%@*}-1.tgz
FAKE
chmod +x "$tmp/bin/npm"

sum() { printf 'sha512-%s' "$(sha512sum "$tmp/npm/$1.tgz" | cut -d ' ' -f 1 | tr a-f A-F | basenc --base16 -d | base64 -w0)"; }
arch=$(uname -m)
{
  echo "# a lock"
  echo "source any source 1 $(sum source)"
  echo "cpu $arch libs 1 $(sum libs)"
  echo "vulkan $arch vulkan 1 $(sum vulkan)"
  echo "cuda $arch cuda 1 $(sum cuda)"
  echo "cuda-ext $arch cuda-ext 1 $(sum cuda-ext)"
  echo "bad $arch libs 2 $(sum vulkan)"
  echo "gone other libs 1 $(sum libs)"
} >"$tmp/lock"

fetch() { # environment... -- arguments...
  local env=()
  while [ "$1" != -- ]; do env+=("$1"); shift; done
  shift
  env -u ENGINE -u VULKAN -u OFFLINE "${env[@]}" FAKE="$tmp" PATH="$tmp/bin:$PATH" BUILD="$tmp/build" \
    ENGINE_LOCK="$tmp/lock" "$here/tools/engine-fetch" "$@" >"$tmp/out" 2>&1
}
refuses() { ! fetch "$@"; }
E=$tmp/build/engine

touch "$tmp/broken"
check "npm's failure is told" refuses X=1 -- get cpu
check "npm's failure is told in its words" says 'npm could not fetch libs@1: npm error code E404'
rm "$tmp/broken"
check "nothing is left" is_clean
check "a wrong sum is refused" refuses X=1 -- get bad
check "a wrong sum is told" says 'which is not the one in'
check "a wrong sum unpacks nothing" test ! -e "$E"/bad-2-*
check "nothing is left of it" is_clean
check "no network, no package" refuses OFFLINE=1 -- get cpu
check "no network is told" says 'OFFLINE is set'
check "an unknown role" refuses X=1 -- get rocm
check "an unknown role is told" says "has no 'rocm' package for $arch"
check "a role of another processor" refuses X=1 -- get gone
check "usage" refuses X=1 -- what

touch "$tmp/slow"
rm -f "$tmp/calls"
FAKE="$tmp" PATH="$tmp/bin:$PATH" BUILD="$tmp/build" ENGINE_LOCK="$tmp/lock" "$here/tools/engine-fetch" get cpu \
  >"$tmp/out" 2>&1 & # interrupted in the middle
pid=$!
until [ -s "$tmp/calls" ]; do sleep 0.05; done
kill "$pid"
rm "$tmp/slow"
check "an interrupted fetch fails" not wait "$pid"
check "and cleans up" is_clean
check "an interrupted fetch leaves no folder" test -z "$(ls -d "$E"/cpu-1-* 2>/dev/null)"

rm -f "$tmp/calls"
check "get" fetch X=1 -- get cpu
dir=$(tail -n 1 "$tmp/out")
check "get prints a folder" test -d "$dir"
check "libraries are flat" test -f "$dir/libggml-cpu-x64.so"
check "plain names are linked" test "$(readlink "$dir/libllama.so")" = libllama.v9.so
check "also behind numbers of builds" test "$(readlink "$dir/libggml.so")" = libggml.b9.so
check "what is not needed stays out" test ! -e "$dir/addon.node"
check "the licence is kept" test -s "$dir/LICENSE.node-llama-cpp"
check "get chooses nothing" test ! -e "$E/lib"
check "once" fetch X=1 -- get cpu
check "is enough" calls 1

# Cards as /sys, /dev and /proc show them.
none="SYSFS=$tmp/none DEV=$tmp/none PROC=$tmp/none"
kind() { # environment... -> what it says
  # shellcheck disable=SC2086
  env -u VULKAN $none "$@" "$here/tools/engine-kind"
}
card() { # name vendor bytes
  mkdir -p "$tmp/$1/class/drm/card0/device"
  echo "$2" >"$tmp/$1/class/drm/card0/device/vendor"
  echo "$3" >"$tmp/$1/class/drm/card0/device/mem_info_vram_total"
}
card amd 0x1002 25753026560
card apu 0x1002 536870912
card intel 0x8086 17179869184
mkdir -p "$tmp/nv"
touch "$tmp/nv/nvidiactl"
check "no card" test "$(kind X=1)" = cpu
check "a card of AMD's" test "$(kind SYSFS="$tmp/amd")" = vulkan
check "that is not wanted" test "$(kind SYSFS="$tmp/amd" VULKAN=0)" = cpu
check "a processor with graphics" test "$(kind SYSFS="$tmp/apu")" = cpu
check "a card of Intel's" test "$(kind SYSFS="$tmp/intel")" = cpu
check "that is wanted" test "$(kind SYSFS="$tmp/intel" VULKAN=1)" = vulkan
check "NVIDIA's driver comes first" test "$(kind SYSFS="$tmp/amd" DEV="$tmp/nv")" = cuda

# shellcheck disable=SC2086
check "choose" fetch $none --
check "chooses the CPU" test "$(cut -d ' ' -f 1 "$E/which")" = cpu
check "libraries are in place" test -f "$E/lib/libllama.so"
check "Vulkan on request" fetch VULKAN=1 --
check "is chosen" test -f "$E/lib/libggml-vulkan.so"
check "headers are in place" test -f "$E/src/ggml/src/ggml-backend-impl.h"
check "the engine's code is not" test ! -e "$E/src/src/secret.cpp"
check "offline afterwards" fetch VULKAN=1 OFFLINE=1 --
check "nothing is left at all" is_clean

# NVIDIA's GPUs with their driver and nothing else, by compute capability, and with a runtime of CUDA's in some folder.
printf '#!/bin/sh\n' >"$tmp/bin/ldconfig" # what this computer has is no part of a test
printf '#!/bin/sh\necho "$GPUS" | tr " " "\\n"\n' >"$tmp/bin/nvidia-smi"
chmod +x "$tmp/bin/ldconfig" "$tmp/bin/nvidia-smi"
for major in 12 13; do
  mkdir -p "$tmp/toolkit$major"
  for lib in libcudart libcublas libcublasLt; do touch "$tmp/toolkit$major/$lib.so.$major"; done
done
cuda() { # GPUS DIRS: the first line that it says; `lib` is chosen
  fetch SYSFS="$tmp/none" PROC="$tmp/none" DEV="$tmp/nv" LD_LIBRARY_PATH= "GPUS=$1" "CUDA_DIRS=$2" --
}
backend() { cat "$(dirname "$(readlink -f "$E/lib/libllama.so")")/libggml-cuda.so"; } # as the engine finds it
both="$tmp/toolkit12 $tmp/toolkit13"
for row in "6.1 12" "7.0 12" "7.5 13" "8.0 13" "8.6 13" "8.9 13" "9.0 13" "10.0 13" "12.0 13" "12.1 13" "8.6 6.1 12"; do
  gpus=${row% *} want=${row##* }
  check "compute capability $gpus" cuda "$gpus" "$both"
  check "compute capability $gpus takes CUDA $want" test "$(backend)" = "$want"
  check "its runtime is linked beside it ($gpus)" test "$(readlink -f "$E/lib/libcudart.so.$want")" = "$(readlink -f "$tmp/toolkit$want/libcudart.so.$want")"
done
check "only CUDA 12" cuda 8.9 "$tmp/toolkit12"
check "is taken" test "$(backend)" = 12
check "only CUDA 13, and an old GPU" cuda 6.1 "$tmp/toolkit13"
check "is told" says "no code for GPUs older than compute capability 7.5"
rm "$tmp/toolkit13/libcublasLt.so.13"
check "a runtime that is not complete" cuda 9.0 "$tmp/toolkit13"
check "is none" says "install NVIDIA's packages cuda-cudart-13-* and libcublas-13-*"
check "no runtime, and an old GPU" cuda 6.1 "$tmp/none"
check "is told which" says "cuda-cudart-12-*"
check "nothing is left of CUDA" is_clean

# The same for what is installed, or an unpacked tarball: tools/gpu/fetch-cuda, into the folder of its libraries and nowhere else.
touch "$tmp/toolkit13/libcublasLt.so.13"
for place in usr/lib/vram-llm tar/lib; do
  top=$tmp/${place%%/*}
  mkdir -p "$tmp/$place" "$top/share/vram-llm/gpu"
  touch "$tmp/$place/libggml-base.so"
  cp "$here"/tools/gpu/fetch-cuda "$here"/tools/gpu/build-cuda "$here"/tools/engine-fetch "$top/share/vram-llm/gpu/"
  cp "$tmp/lock" "$top/share/vram-llm/gpu/engine.lock"
  brings() { # GPUS DIRS
    env -u ENGINE -u VULKAN -u OFFLINE FAKE="$tmp" PATH="$tmp/bin:$PATH" TMPDIR="$tmp/work" LD_LIBRARY_PATH= "GPUS=$1" "CUDA_DIRS=$2" "$top/share/vram-llm/gpu/fetch-cuda" >"$tmp/out" 2>&1
  }
  mkdir -p "$tmp/work"
  check "installed: no runtime" not brings 8.6 "$tmp/none"
  check "is told" says "install NVIDIA's packages cuda-cudart-13-* and libcublas-13-*"
  check "and nothing is put there" test "$(ls "$tmp/$place")" = libggml-base.so
  check "installed: both" brings 8.6 "$both"
  check "it is CUDA 13's" test "$(cat "$tmp/$place/libggml-cuda.so")" = 13
  check "of this engine" test "$(cat "$tmp/$place/libggml-cuda.engine")" = 1
  check "installed: an old GPU" brings 6.1 "$both"
  check "it is CUDA 12's" test "$(cat "$tmp/$place/libggml-cuda.so")" = 12
  check "with its runtime" test "$(readlink "$tmp/$place/libcublas.so.12")" = "$tmp/toolkit12/libcublas.so.12"
  check "nothing else is left" test -z "$(ls -A "$tmp/work")"
  "$top/share/vram-llm/gpu/build-cuda" --source "$tmp/none" >"$tmp/out" 2>&1 || true
  check "build-cuda finds the folder, too" not says "libggml-base.so"
done
checkout() { "$here/tools/gpu/fetch-cuda" >"$tmp/out" 2>&1; }
check "a checkout needs no fetch-cuda" not checkout
check "and is told" says "make run fetches what is missing"

mkdir -p "$tmp/own/build/bin"
check "all of the source" sh -c "cd '$tmp' && FAKE='$tmp' PATH='$tmp/bin:$PATH' BUILD='$tmp/build' ENGINE_LOCK='$tmp/lock' '$here/tools/engine-fetch' source all >'$tmp/out' 2>&1"
check "is unpacked" test -f "$tmp/all/src/secret.cpp"
check "an own engine that is none" refuses ENGINE="$tmp/own" --
check "is told" says 'has no include/llama.h'
cp -r "$tmp/repo/." "$tmp/own/"
check "an own engine that is not built" refuses ENGINE="$tmp/own" --
check "is told so" says 'has no libllama.so in build/bin'
touch "$tmp/own/build/bin/libllama.so" "$tmp/own/build/bin/libllama-common.so"
check "an own engine" fetch ENGINE="$tmp/own" --
check "is linked" test "$(readlink "$E/lib")" = "$tmp/own/build/bin"
check "and told" test "$(cut -d ' ' -f 1 "$E/which")" = own
check "no such folder" refuses ENGINE="$tmp/nowhere" --

# tools/gpu/build-cuda goes with the tarball, where the lock is not: it must name the same source
locked=$(awk '$1 == "source" { print $3, $4, $5 }' "$here/tools/engine.lock")
named=$(sed -n 's/^package=\([^ ]*\) version=\([^ ]*\).*/\1 \2/p' "$here/tools/gpu/build-cuda")
sum=$(sed -n 's/^sum=//p' "$here/tools/gpu/build-cuda")
hex=$(printf %s "${locked##*sha512-}" | base64 -d | od -An -v -tx1 | tr -d ' \n')
check "build-cuda names the locked source" test "${locked% *}" = "$named"
check "by its sum" test "$hex" = "$sum"

echo "engine_fetch: $((n - failed)) passed, $failed failed"
[ "$failed" = 0 ]
