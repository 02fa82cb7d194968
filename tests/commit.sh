#!/usr/bin/env bash
# tools/commit: of a checkout, of one that is somebody else's, of one with changes, of what `git archive` packs, of a folder that nobody knows, and of one inside another project's checkout.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0
is() { [ "$2" = "$3" ] || { echo "commit: $1: '$2', expected '$3'"; failed=1; }; }

mkdir -p "$tmp/a/tools" "$tmp/b" "$tmp/none/tools"
cp "$here/tools/commit" "$tmp/a/tools/"
cp "$here/tools/commit" "$tmp/none/tools/"
cp "$here/.gitattributes" "$tmp/a/"
cd "$tmp/a"
git init -q
git add .
git -c user.name=x -c user.email=x@x commit -q -m x
git tag v1 # a name is not what is asked for
id=$(git rev-parse --short=12 HEAD)
is "a checkout" "$(tools/commit)" "$id"
is "somebody else's checkout, installed by root" "$(GIT_TEST_ASSUME_DIFFERENT_OWNER=1 tools/commit)" "$id"
git archive HEAD | tar -x -C "$tmp/b"
is "an archive" "$("$tmp/b/tools/commit")" "$id"
echo >>.gitattributes
is "with changes" "$(tools/commit)" "$id-dirty"
mkdir inner && cp -r "$tmp/none/tools" inner/
is "inside another project" "$(inner/tools/commit)" ""
is "unknown" "$("$tmp/none/tools/commit")" ""
[ "$failed" = 0 ] && echo "  ok    commit (6 cases)"
exit "$failed"
