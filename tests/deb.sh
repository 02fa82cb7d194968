#!/usr/bin/env bash
# The package of `make deb`, in bare Debians: installed with apt over an older one, its service's command run under its user as the unit says, chat over HTTP,
# manual page, completions; then purged, and nothing of it is left but models. Needs root, debootstrap, and the mirror that this machine uses.
#   tests/deb.sh BUILD VERSION [RELEASE…]
set -u
build=$PWD/$1
package=vram-llm_$2_amd64.deb version=$2
shift 2
failed=0
bad() { echo "  FAIL  deb: $*"; failed=1; }
lintian --fail-on error,warning --tag-display-limit 0 "$build/$package" || bad "lintian"
mirror=$(apt-cache policy | sed -n 's/^ *[0-9]* \(http[^ ]*\) .*main.*/\1/p' | grep -v security | head -n 1)

# The same package as an older version of itself, with a library that the newer one has no more.
older() { # OUT.deb
  local dir
  dir=$(mktemp -d)
  dpkg-deb -R "$build/$package" "$dir" &&
    sed -i 's/^Version: .*/Version: 0.0.1/' "$dir/DEBIAN/control" &&
    touch "$dir/usr/lib/vram-llm/libgone.so" &&
    dpkg-deb -Znone -b "$dir" "$1" >/dev/null
  rm -rf -- "$dir"
}

# zsh completes for a terminal alone: one that is typed into, until what it prints has the option.
# shellcheck disable=SC2016
typed='zmodload zsh/zpty; zpty z zsh -f -i
  zpty -w z "autoload -U compinit; compinit -D -u; PS1="
  zpty -w -n z $'"'"'vram-llm serve --por\t'"'"'
  for i in {1..600}; do sleep 0.1; while zpty -r -t z x; do all+=$x; done; [[ $all = *--port* ]] && break; done
  print -r -- "$all"; zpty -d z'

try() { # RELEASE ROOT
  root=$2
  inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"; }
  debootstrap --variant=minbase "$1" "$root" "$mirror" >"$root.log" 2>&1 || { bad "$1: no base system"; tail -n 3 "$root.log"; return; }
  cp "$build/$package" "$root/tmp/"
  older "$root/tmp/older.deb" || bad "$1: no older package"
  mount -t proc proc "$root/proc" && mount -t devtmpfs -o ro devtmpfs "$root/dev" && mount --bind /dev/pts "$root/dev/pts"
  add() { inside env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >"$root.log" 2>&1; }
  add /tmp/older.deb man-db zsh fish || { bad "$1: does not install"; tail -n 5 "$root.log"; return; }
  printf '\n[plan]\nn-ctx = 12345\n' >>"$root/etc/vram-llm/config"
  user=$(inside id vram-llm) || bad "$1: no user vram-llm"
  inside install -D -o vram-llm -m 644 /usr/share/vram-llm/demo.gguf /var/lib/vram-llm/.cache/huggingface/hub/kept.gguf
  for f in libggml-cuda.so libggml-cuda.engine; do echo older >"$root/usr/lib/vram-llm/$f"; done
  add "/tmp/$package" || { bad "$1: does not upgrade"; tail -n 5 "$root.log"; return; }
  [ "$(inside dpkg-query -W -f '${Version}' vram-llm)" = "$version" ] || bad "$1: is not upgraded"
  [ ! -e "$root/usr/lib/vram-llm/libgone.so" ] || bad "$1: upgrading left a library of the older version"
  [ ! -e "$root/usr/lib/vram-llm/libggml-cuda.so" ] || bad "$1: upgrading left a CUDA library of another engine"
  awk '$1 == "source" { print $4 }' tools/engine.lock >"$root/usr/lib/vram-llm/libggml-cuda.engine"
  touch "$root/usr/lib/vram-llm/libggml-cuda.so" # of this one: reinstalling keeps it
  add --reinstall "/tmp/$package" && [ -e "$root/usr/lib/vram-llm/libggml-cuda.so" ] || bad "$1: reinstalling took the CUDA library away"
  [ "$(inside id vram-llm)" = "$user" ] || bad "$1: upgrading changed the user"
  cmp -s "$root/usr/share/vram-llm/demo.gguf" "$root/var/lib/vram-llm/.cache/huggingface/hub/kept.gguf" || bad "$1: upgrading took a model away"
  inside env HOME=/var/lib/vram-llm vram-llm doctor | grep -q "n-ctx .*12345 .*plan .*/etc/vram-llm/config, line" || bad "$1: upgrading lost a setting"
  commit=$(tools/commit)
  inside vram-llm --version | grep -q "^vram-llm $version ${commit:+(commit }.*engine llama.cpp " || bad "$1: --version"
  inside man vram-llm 2>/dev/null | grep -q OPTIONS || bad "$1: the manual page"
  inside bash -c '. /usr/share/bash-completion/completions/vram-llm; COMP_WORDS=(vram-llm serve --por); COMP_CWORD=2; _vram_llm; [ "${COMPREPLY[0]}" = --port ]' || bad "$1: completions"
  inside timeout 120 zsh -fc "$typed" | grep -q -- "serve --port" || bad "$1: completions of zsh"
  inside fish -c 'complete -C "vram-llm serve --por"' | grep -q "^--port" || bad "$1: completions of fish"
  inside env HOME=/var/lib/vram-llm vram-llm models | grep -q "^kept  *Hugging Face .* host " || bad "$1: models"
  # as the unit says, without systemd: its user, its home, its command
  inside chown -R vram-llm: /var/lib/vram-llm || bad "$1: no user vram-llm"
  unit() { sed -n "s/^$1=//p" "$root/usr/lib/systemd/system/vram-llm.service" "$root/lib/systemd/system/vram-llm.service" 2>/dev/null | head -n 1; }
  # shellcheck disable=SC2046
  serve() { exec chroot "$root" env -i PATH=/usr/bin:/bin setpriv --reuid vram-llm --regid vram-llm --init-groups env HOME=/var/lib/vram-llm VRAM_LLM_PORT=0 $(unit ExecStart); }
  (serve) >"$root.log" 2>&1 &
  pid=$!
  for _ in $(seq 600); do grep -q "is ready" "$root.log" && break; sleep 0.1; done
  answer=$(curl -s -m 120 "$(sed -n 's/.*listening on \(http[^ ]*\).*/\1/p' "$root.log")/v1/chat/completions" -d '{"messages":[{"role":"user","content":"what is 27+48"}],"temperature":0}')
  grep -q "75" <<<"$answer" || { bad "$1: no answer: $answer"; tail -n 5 "$root.log"; }
  kill "$pid"; wait "$pid"
  # one that cannot work is not started again and again
  echo "what = this" >>"$root/etc/vram-llm/config"
  (serve) >"$root.log" 2>&1
  status=$?
  [[ " $(unit RestartPreventExitStatus) " = *" $status "* ]] || { bad "$1: settings that make no sense end the service with status $status, which systemd tries again"; tail -n 2 "$root.log"; }
  for kept in . .cache/huggingface/hub .local/share/vram-llm/models/host; do mkdir -p "$root/var/lib/vram-llm/$kept" && touch "$root/var/lib/vram-llm/$kept/kept.gguf"; done
  touch "$root/var/lib/vram-llm/.local/share/vram-llm/machine.json" "$root/etc/vram-llm/keys"
  inside env DEBIAN_FRONTEND=noninteractive apt-get purge -y -qq vram-llm >"$root.log" 2>&1 || { bad "$1: does not purge"; tail -n 5 "$root.log"; }
  [ "$(find "$root/var/lib/vram-llm" -name kept.gguf | wc -l)" = 3 ] || bad "$1: purging took a model away"
  [ ! -e "$root/var/lib/vram-llm/.local/share/vram-llm/machine.json" ] || bad "$1: purging left what was measured"
  left=$(find "$root" -xdev -path '*vram-llm*' ! -path "$root/tmp/*" ! -path '*/var/lib/vram-llm*' ! -path '*/var/log/*' ! -path '*/var/cache/apt/*' ! -path '*/var/cache/man/*')
  [ -z "$left" ] || bad "$1: left behind: $left"
  [ "$failed" = 1 ] || echo "  ok    deb: $1"
}
root=
cleanup() {
  [ -n "$root" ] || return
  umount "$root/proc" "$root/dev/pts" "$root/dev" 2>/dev/null
  mountpoint -q "$root/proc" || mountpoint -q "$root/dev" || rm -rf --one-file-system -- "$root" "$root".*
  root=
}
trap cleanup EXIT
trap 'exit 130' INT TERM HUP
[ $# -gt 0 ] || set -- bookworm trixie
for release; do
  root=$(mktemp -d) && chmod 755 "$root"
  try "$release" "$root"
  cleanup
done
exit "$failed"
