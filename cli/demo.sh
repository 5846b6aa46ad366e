#!/usr/bin/env bash
# Converts the tutorial's checkpoint and proves the result: `make demo` calls it
# after building bin/convert. It ends with status 1 where a byte differs.
set -euo pipefail
cd "$(dirname "$0")/.."

convert=bin/convert
job=fixtures/jobs/tutorial.toml
expected=fixtures/golden/mindspore/01_tutorial_8to4_optshard/expected
out=bin/demo

[ -x "$convert" ] || { echo "demo: $convert is not there, run \`make build\`" >&2; exit 1; }

step() { printf '\n== %s\n' "$1"; }

# show prints a command line and runs it.
show() {
  printf '\n$ %s\n' "$*"
  "$@"
}

sha256() {
  if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d ' ' -f 1
}

rm -rf "$out"

step "the job: 8 MindSpore ranks with optimizer parallel and Momentum states become 4 ranks with another strategy"
show cat "$job"

step "what would be read and written"
show "$convert" plan -f "$job" --set target.path="$PWD/$out" --by rank

step "run it; everything is read back from the disk and summed again"
show "$convert" -f "$job" --set target.path="$PWD/$out"

step "compare each file with what MindSpore's own transform_checkpoints wrote for the same job"
manifest=$out/convert.manifest.json
failed=0
files=0
while IFS= read -r name; do
  files=$((files + 1))
  if ! cmp "$out/$name" "$expected/$name"; then
    failed=1
    continue
  fi
  sum=$(sha256 "$out/$name")
  if ! grep -q "\"sha256\": \"$sum\"" "$manifest"; then
    echo "demo: $manifest does not list the SHA-256 of $name, $sum" >&2
    failed=1
    continue
  fi
  echo "same bytes  $sum  $name"
done < <(cd "$expected" && find . -type f | sed 's|^\./||' | LC_ALL=C sort)
written=$(find "$out" -name '*.ckpt' | wc -l)
if [ "$files" -eq 0 ] || [ "$written" -ne "$files" ]; then
  echo "demo: $written files were written, MindSpore wrote $files" >&2
  failed=1
fi
if [ "$failed" -ne 0 ]; then
  echo "demo: the result differs from what is right" >&2
  exit 1
fi

step "one of the files"
show "$convert" inspect "$out/rank_0"

printf '\nall %d files have the bytes that MindSpore wrote\nmanifest  %s\n' "$files" "$manifest"
