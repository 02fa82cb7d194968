#!/usr/bin/env bash
# `bench` as a user runs it, on this computer's CPU: the machine's profile is made, kept, used, and not trusted blindly.
#   tests/bench.sh BUILD
set -u
# On one processor: threads that compute wait for each other, so on a busy machine two take many times as long as one.
[ -n "${VR_PINNED-}" ] || VR_PINNED=1 exec taskset -c "$(taskset -pc $$ | sed 's/.*: //; s/[^0-9].*//')" "$0" "$@"
build=$PWD/$1
dir=$(mktemp -d)
trap 'rm -rf -- "$dir"' EXIT
export XDG_DATA_HOME=$dir/data VRAM_LLM_HOST_GBS=off XDG_STATE_HOME=$dir/state NO_COLOR=1 VRAM_LLM_NVML= TMPDIR=$dir
program=$build/vram-llm profile=$dir/data/vram-llm/machine.json
passed=0 failed=0
check() { # WHAT COMMAND...
  what=$1
  shift
  if "$@" >"$dir/out" 2>&1; then passed=$((passed + 1)); else
    failed=$((failed + 1))
    echo "  FAIL  bench: $what"
    tail -n 5 "$dir/out"
  fi
}
holds() { grep -q -- "$2" "$1" || { head -n 30 "$1"; false; }; }

"$build/tests/tiny-model" "$dir/tiny.gguf" --layers 2 --type q8_0 >/dev/null || exit 1
"$program" doctor >"$dir/doctor" 2>&1
check "a machine that nobody measured says so" holds "$dir/doctor" "calibrated    no: plans use"
"$program" bench --model "$dir/tiny.gguf" --n-ctx 512 --n-tokens 4 --json >"$dir/run.json" 2>"$dir/steps"
check "it ends well" holds "$dir/run.json" '"what": "token generation"'
check "prompts are measured too" holds "$dir/run.json" '"what": "prompt processing"'
check "predictions stand beside" holds "$dir/run.json" '"predicted_over_measured"'
check "progress is told" holds "$dir/steps" 'host: matrix multiplication, q8_0'
check "the profile is kept" holds "$profile" '"name": "q8_0", "gbs": '
"$program" bench "$dir/tiny.gguf" --n-ctx 512 --n-tokens 4 >"$dir/run" 2>"$dir/steps"
check "what was measured is not measured again" test ! -s "$dir/steps"
check "and predictions rest on it" holds "$dir/run" "from this machine's calibration"
"$program" bench "$dir/tiny.gguf" --as-is --n-ctx 512 --n-tokens 4 --submit "$dir/rows.jsonl" >"$dir/run" 2>&1
check "rows to share are appended" holds "$dir/run" "rows\\? appended to"
check "a row has its speeds" holds "$dir/rows.jsonl" '"tg_tok_s":.*"predicted_tok_s":.*"calibrated":true'
check "and nothing about whose it is" test "$(grep -c -e "$dir" -e "$(hostname)\"" -e 'tiny\.gguf' "$dir/rows.jsonl")" = 0
"$program" bench --compare "$dir/rows.jsonl" >"$dir/run" 2>&1
check "rows are read back" holds "$dir/run" 'token generation: [12] rows\?, '
check "rows need a model" test "$("$program" bench --submit "$dir/none" >/dev/null 2>&1; echo $?)" = 2
"$program" doctor >"$dir/doctor" 2>&1
check "doctor says when" holds "$dir/doctor" "calibrated    20"
check "the profile is a machine like any other" "$program" plan --machine "$profile" "$dir/tiny.gguf"
left=$(find "$dir" -name 'vram-llm-*' | wc -l)
check "nothing is left behind" test "$left" = 0
sed -i 's/"launch_us": [0-9.]*/"launch_us": -5/' "$profile"
"$program" doctor >"$dir/doctor" 2>&1
check "a spoiled profile is told and not used" holds "$dir/doctor" "the calibration is not used: .*launch_us is -5"
check "and is not in the way" "$program" plan "$dir/tiny.gguf"
"$program" bench --types q4_K,nonsense >"$dir/out2" 2>&1
check "a type that is none" holds "$dir/out2" "unknown type 'nonsense'"
env -u XDG_DATA_HOME -u HOME "$program" bench --types q8_0 >"$dir/out2" 2>&1
check "no home to keep it in" holds "$dir/out2" "neither XDG_DATA_HOME nor HOME is set"
echo "bench: $passed passed, $failed failed"
[ "$failed" = 0 ]
