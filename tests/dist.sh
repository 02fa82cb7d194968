#!/usr/bin/env bash
# The tarball of `make dist` on a computer that has nothing but an old glibc: no shell, no library, no /etc.
#
# Three proofs: no file asks for a glibc after 2.34 (or the program brings what it asks for); every library that is
# needed is in the tarball or part of glibc; and it runs, serving a model, in an empty root whose libc is this
# machine's with all versions after 2.34 taken out.
#   tests/dist.sh BUILD VERSION
set -u
build=$PWD/$1
name=vram-llm-$2-linux-x86_64
root=$(mktemp -d)
server=
failed=0

cleanup() {
  if [ -n "$server" ]; then { kill -9 "$server" && wait "$server"; } 2>/dev/null; fi # its child dies with it
  rm -rf -- "$root"
}
trap cleanup EXIT
bad() { echo "  FAIL  dist: $*"; failed=1; }

mkdir -p "$root"/{opt,proc,dev,tmp,lib64,lib/x86_64-linux-gnu}
tar -C "$root/opt" -xzf "$build/$name.tar.gz" || exit 1
at=$root/opt/$name

# --- what it asks for ---
exported=$(objdump -T "$at/bin/vram-llm" | awk '$2 ~ /g/ && !/\*UND\*/ { print $NF }')
libc=$(gcc -print-file-name=libc.so.6)
newer=$(objdump -T "$libc" /lib64/ld-linux-x86-64.so.2 | grep -E 'GLIBC_2\.(3[5-9]|[4-9][0-9])' | grep -v '\*UND\*' | awk '{ print $NF }' |
  grep -v '^GLIBC' | sort -u)
for file in "$at"/bin/* "$at"/lib/*; do
  [ -L "$file" ] && continue
  short=${file#"$at"/}
  hard=$(readelf -VW "$file" | sed -n '/^Version needs/,$p' | grep -oE 'GLIBC_2\.(3[5-9]|[4-9][0-9])(\.[0-9]+)?' | head -n 1)
  [ -z "$hard" ] || bad "$short needs $hard"
  # what a library was made with and can no longer ask for must come with the program
  for symbol in $(objdump -T "$file" | awk '/\*UND\*.*GLIBC_/ { print $NF }' | sort -u | comm -12 - <(echo "$newer")); do
    grep -qx "$symbol" <<<"$exported" || bad "$short calls $symbol, which glibc 2.34 lacks and the program does not bring"
  done
  for lib in $(objdump -p "$file" | awk '$1 == "NEEDED" { print $2 }'); do
    case $lib in libc.so.6 | libm.so.6 | libdl.so.2 | libpthread.so.0 | librt.so.1 | ld-linux-x86-64.so.2) continue ;; esac
    [ -e "$at/lib/$lib" ] || bad "$short needs $lib, which is not in the tarball"
  done
  path=$(objdump -p "$file" | awk '$1 == "RUNPATH" || $1 == "RPATH" { print $2 }')
  case $path in '' | *\$ORIGIN*) ;; *) bad "$short looks for libraries in $path" ;; esac
done
for license in llama.cpp node-llama-cpp libevent libjansson libseccomp libssl gcc-12-base; do
  [ -s "$at/licenses/$license" ] || bad "licenses/$license is missing"
done

# links_lead DIR: those of its pages
links_lead() {
  local page to
  for page in "$1"/*.md "$1"/docs/*.md; do
    for to in $(grep -oE '\]\([^):# ]+[)#]' "$page" | sed 's/^](//; s/.$//'); do
      [ -e "$(dirname "$page")/$to" ] || bad "${page#"$root"} has a link to $to, which is not there"
    done
  done
}
links_lead "$at"

# --- does it run ---
loader=$(readlink -f /lib64/ld-linux-x86-64.so.2)
for lib in libc.so.6 libm.so.6; do cp -L "$(dirname "$loader")/$lib" "$root/lib/x86_64-linux-gnu/"; done
cp -L "$loader" "$root/lib64/ld-linux-x86-64.so.2"
for lib in libc libm; do
  "$build/dist/glibc" forget 34 "$root/lib/x86_64-linux-gnu/$lib.so.6" >/dev/null || bad "$lib"
done
: >"$root/dev/null"
"$build/tests/tiny-model" "$root/tmp/tiny.gguf" >/dev/null || bad "no model to serve"

# inside PROGRAM ARGUMENTS: in the empty root, with /proc and nothing else of this machine
inside() {
  exec env -i unshare --map-root-user --mount --pid --fork --kill-child --root="$root" --mount-proc=/proc --wd=/tmp "$@"
}
program=/opt/$name/bin/vram-llm
if ! (inside "$program" --version) >/dev/null 2>&1; then
  (inside "$program" --version) 2>&1 | head -n 3
  if ! unshare --map-root-user --mount --pid --fork true 2>/dev/null; then
    echo "  dist: no namespaces are allowed here; running it in place instead"
    inside() { shift; cd "$root/tmp" && exec env -i "$at/bin/vram-llm" "$@"; }
  else
    bad "it does not start"
  fi
fi
expect() { # WORD ARGUMENTS: its output holds that word
  word=$1
  shift
  (inside "$program" "$@") >"$root/out" 2>&1
  status=$?
  { [ $status = 0 ] && grep -q -- "$word" "$root/out"; } || { bad "vram-llm $* (status $status)"; head -n 5 "$root/out"; }
}
expect "tested in a child process" doctor
expect "It fits" plan tiny.gguf --gpus "RTX 3090"
(inside "$program" serve tiny.gguf --port 0) >"$root/log" 2>&1 &
server=$!
port=
for _ in $(seq 1200); do
  port=$(sed -n 's/.*listening on http:\/\/127\.0\.0\.1:\([0-9]*\).*/\1/p' "$root/log")
  [ -n "$port" ] && grep -q "is ready" "$root/log" && break
  kill -0 "$server" 2>/dev/null || break
  sleep 0.1
done
body='{"prompt":"word1 word2","max_tokens":8,"temperature":0,"ignore_eos":true}'
if [ -n "$port" ] && exec 3<>"/dev/tcp/127.0.0.1/$port"; then
  printf 'POST /v1/completions HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s' \
    "${#body}" "$body" >&3
  answer=$(timeout 120 cat <&3)
  grep -q '"completion_tokens": *8' <<<"$answer" || { bad "no completion: $answer"; cat "$root/log"; }
else
  bad "it does not serve"
  cat "$root/log"
fi
# --- installed, with nothing of the tarball left ---
tools/dist/install "$at" "$root/opt/usr" && mv "$at" "$root/opt/away" || bad "it does not install"
program=/opt/usr/bin/vram-llm at=$root/opt/usr
links_lead "$at/share/doc/vram-llm"
commit=$(tools/commit)
expect "^vram-llm $2 ${commit:+(commit }.*engine llama.cpp" --version
expect "It fits" plan tiny.gguf --gpus "RTX 3090"
# what doctor names for NVIDIA's GPUs is there; asked on this computer, where a stub plays the driver
doctor=$(env -i NO_COLOR=1 HOME="$root/tmp" VRAM_LLM_NVML="$build/tests/libnvml-stub.so" "$root$program" doctor)
fetcher=$(sed -n "s/.* comes without llama.cpp's CUDA library: \\([^ ]*\\) fetches it .*/\\1/p" <<<"$doctor")
[ -n "$fetcher" ] && [ -x "$fetcher" ] && [ -x "${fetcher%/*}/build-cuda" ] && [ -x "${fetcher%/*}/engine-fetch" ] && cmp -s tools/engine.lock "${fetcher%/*}/engine.lock" ||
  { bad "doctor names no script that is there: '$fetcher'"; grep -i "without" <<<"$doctor"; }
expect "vram-llm demo" plan --gpus none /opt/usr/share/vram-llm/demo.gguf
groff -man -Tutf8 -ww -K utf8 "$at/share/man/man1/vram-llm.1" >/dev/null 2>"$root/out" || bad "the manual page"
[ -s "$root/out" ] && { bad "the manual page"; head -n 3 "$root/out"; }
words=$(bash -c 'source "$1"; COMP_WORDS=(vram-llm plan --optimize p); COMP_CWORD=3; _vram_llm; echo "${COMPREPLY[@]}"
  COMP_WORDS=(vram-llm serve --max-q); COMP_CWORD=2; _vram_llm; echo "${COMPREPLY[@]}"' - "$at/share/bash-completion/completions/vram-llm")
[ "$words" = $'prefill\n--max-queue' ] || bad "bash completes: $words"
words=$(cd "$root/tmp" && touch "two words.gguf" && bash -c 'source "$1"; COMP_WORDS=(vram-llm plan --model two); COMP_CWORD=3; _vram_llm; echo "${#COMPREPLY[@]} ${COMPREPLY[0]}"' - "$at/share/bash-completion/completions/vram-llm")
[ "$words" = "1 two words.gguf" ] || bad "bash completes a file's name: $words"

[ "$failed" = 0 ] && echo "dist: $(du -h "$build/$name.tar.gz" | cut -f 1), needs glibc 2.34 and nothing else; doctor, plan and serve ran in an empty root; so does what make install puts elsewhere"
exit "$failed"
