#!/usr/bin/env bash
# The Containerfile, built by buildah over a Debian of debootstrap's in place of the registry's, and run as its user with its command: chat over HTTP.
# Needs root, buildah, debootstrap, and the mirror that this machine uses.
#   tests/container.sh BUILD VERSION
set -eu
build=$1 version=$2
dir=$(mktemp -d) pid= mounted=
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
storage=(--root "$dir/storage" --runroot "$dir/run")
cat >"$dir/buildah" <<END
#!/bin/sh
exec buildah ${storage[*]} "\$@"
END
chmod +x "$dir/buildah"
B=$dir/buildah
cleanup() {
  [ -z "$pid" ] || { kill "$pid" 2>/dev/null && wait "$pid" || true; }
  for at in $mounted; do umount "$at" || true; done
  for c in $("$B" containers -q 2>/dev/null); do "$B" rm "$c" >/dev/null 2>&1 || true; done
  rm -rf --one-file-system -- "$dir"
}
trap cleanup EXIT
bad() { echo "  FAIL  container: $*"; exit 1; }

mirror=$(apt-cache policy | sed -n 's/^ *[0-9]* \(http[^ ]*\) .*main.*/\1/p' | grep -v security | head -n 1)
debootstrap --variant=minbase bookworm "$dir/base" "$mirror" >"$dir/log" 2>&1 || { tail -n 3 "$dir/log"; bad "no base system"; }
base=$("$B" from scratch)
"$B" add -q "$base" "$dir/base" / >/dev/null
"$B" commit -q "$base" localhost/debian:12-slim >/dev/null
"$B" rm "$base" >/dev/null
rm -rf --one-file-system -- "$dir/base"

BUILDER=$B tools/container/make "$build" "$version" --build-arg BASE=localhost/debian:12-slim --pull-never >"$dir/log" 2>&1 || { tail -n 5 "$dir/log"; bad "does not build"; }
container=$("$B" from --pull-never "localhost/vram-llm:$version")
told() { "$B" inspect --format "$1" "$container"; }
[ "$(told '{{.OCIv1.Config.User}}')" = vram-llm ] || bad "its user"
[ "$(told '{{.OCIv1.Config.Entrypoint}} {{.OCIv1.Config.Cmd}}')" = "[vram-llm] [serve]" ] || bad "its command: $(told '{{.OCIv1.Config.Entrypoint}} {{.OCIv1.Config.Cmd}}')"
root=$("$B" mount "$container")
mount -t proc proc "$root/proc" && mounted="$root/proc"
mount -t devtmpfs -o ro devtmpfs "$root/dev" && mounted="$mounted $root/dev"
inside() { exec chroot --userspec=vram-llm "$root" env -i PATH=/usr/local/bin:/usr/bin:/bin "$@"; }
mapfile -t environment < <(told '{{range .OCIv1.Config.Env}}{{println .}}{{end}}' | grep =)

(inside "${environment[@]}" vram-llm serve) >"$dir/log" 2>&1 && bad "serves others without a key"
grep -q "set an API key" "$dir/log" || bad "does not ask for a key: $(cat "$dir/log")"
(inside "${environment[@]}" VRAM_LLM_API_KEY=secret-of-a-test VRAM_LLM_PORT=0 vram-llm serve) >"$dir/log" 2>&1 &
pid=$!
for _ in $(seq 1200); do grep -q "is ready" "$dir/log" && break; kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
url=$(sed -n 's/.*listening on http:\/\/[^:]*:\([0-9]*\).*/http:\/\/127.0.0.1:\1/p' "$dir/log")
[ -n "$url" ] || { tail -n 5 "$dir/log"; bad "does not serve"; }
answer=$(curl -s -m 120 -H "Authorization: Bearer secret-of-a-test" "$url/v1/chat/completions" -d '{"messages":[{"role":"user","content":"what is 27+48"}],"temperature":0}' || true)
grep -q 75 <<<"$answer" || { tail -n 5 "$dir/log"; bad "no answer: $answer"; }
curl -s -m 20 "$url/v1/models" | grep -q "API key" || bad "answers without the key"
echo "  ok    container: builds, asks for a key, chats as user vram-llm"
