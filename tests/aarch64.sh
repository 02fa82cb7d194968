#!/usr/bin/env bash
# What `make aarch64` built, under qemu-user: its version, a plan, and a chat with the demo model over HTTP. The program starts itself again for engine and
# plans, so the kernel must know qemu for such files (binfmt_misc): registered here where it is not, and taken away again. Needs root.
#   tests/aarch64.sh OUT
set -u
out=$(realpath "$1")
qemu=$(command -v qemu-aarch64) || { echo "aarch64: qemu-aarch64 is not installed (Debian: qemu-user)"; exit 1; }
tmp=$(mktemp -d)
failed=0 server='' registered='' mounted=''
bad() { echo "  FAIL  aarch64: $*"; failed=1; }
binfmt=/proc/sys/fs/binfmt_misc
cleanup() {
  [ -z "$server" ] || { kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; }
  [ -z "$registered" ] || echo -1 >"$binfmt/vram-llm-test"
  [ -z "$mounted" ] || umount "$binfmt"
  rm -rf -- "$tmp"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

if [ ! -e "$binfmt/register" ]; then
  mount -t binfmt_misc binfmt_misc "$binfmt" || { echo "aarch64: binfmt_misc cannot be mounted: run it as root"; exit 1; }
  mounted=1
fi
if ! grep -qs "^enabled" "$binfmt/qemu-aarch64"; then
  # 64-bit little-endian ELF, executable or shared object, machine 0xb7; F: the interpreter is opened now; P: argv[0] is kept
  printf '%s' ":vram-llm-test:M::\\x7fELF\\x02\\x01\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02\\x00\\xb7\\x00:\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x00\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xfe\\xff\\xff\\xff:$qemu:F" >"$binfmt/register" ||
    { echo "aarch64: qemu cannot be registered with the kernel"; exit 1; }
  registered=1
fi
export QEMU_LD_PREFIX=$out/sysroot XDG_DATA_HOME=$tmp XDG_CACHE_HOME=$tmp XDG_STATE_HOME=$tmp XDG_CONFIG_HOME=$tmp VRAM_LLM_HOST_GBS=off VRAM_LLM_NVML=''
program=$out/vram-llm

file -b "$program" | grep -q aarch64 || bad "$(file -b "$program")"
"$program" --version | grep -q "^vram-llm .*engine llama.cpp" || bad "--version"
"$program" plan models/demo.gguf --gpus "RTX 3090" >"$tmp/plan" 2>&1 || bad "plan: $(tail -n 3 "$tmp/plan")"
grep -q "CUDA0" "$tmp/plan" || bad "plan: no device in it"
"$program" serve models/demo.gguf --port 0 >"$tmp/log" 2>&1 &
server=$!
for _ in $(seq 6000); do
  grep -q "is ready" "$tmp/log" && break
  kill -0 "$server" 2>/dev/null || break
  sleep 0.1
done
at=$(sed -n 's/.*listening on \(http[^ ]*\).*/\1/p' "$tmp/log")
answer=$(curl -s -m 600 "$at/v1/chat/completions" -d '{"messages":[{"role":"user","content":"what is 27+48"}],"temperature":0,"max_tokens":20}')
grep -q 75 <<<"$answer" || { bad "no answer: $answer"; tail -n 15 "$tmp/log"; }
[ "$failed" = 1 ] || echo "  ok    aarch64: version, plan, chat"
exit "$failed"
