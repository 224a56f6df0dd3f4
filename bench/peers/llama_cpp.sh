#!/usr/bin/env bash
# Measures llama.cpp with CUDA on random weights in the shapes of `npm run bench`.
#
#     bench/peers/llama_cpp.sh LLAMA_CPP [SHAPE…]
#
# LLAMA_CPP is a folder with its source, in whose build-bench llama-bench is built, or a llama-bench. Prints a line of
# CSV for each shape, a name in src/bench/configs or the path of a config.json: tokens a second of a prompt of 512, and
# of 128 tokens generated after 1,024 (medians of five). Without shapes it builds only.
#
# RESULTS: a folder in which llama-bench's JSON stays. PYTHON: one that has numpy. TMPDIR: where the files of weights
# come and go. CMAKE_ARGS: more arguments for CMake.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
source=${1:?a folder with the source of llama.cpp, or a llama-bench}
shift

bench=$source
if [ -d "$source" ]; then
  build=$source/build-bench
  bench=$build/bin/llama-bench
  generator=()
  if command -v ninja >/dev/null; then generator=(-G Ninja); fi
  # shellcheck disable=SC2086
  cmake -S "$source" -B "$build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
    -DGGML_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=native -DGGML_CUDA_NCCL=OFF \
    -DLLAMA_ALL_WARNINGS=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
    -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_TOOLS_INSTALL=OFF ${CMAKE_ARGS:-} >&2
  cmake --build "$build" --target llama-bench --parallel "$(nproc)" >&2
fi
if [ $# = 0 ]; then exit; fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
results=${RESULTS:-$work}
mkdir -p "$results"
echo shape,prompt512,decode1024
for shape in "$@"; do
  name=$(basename "$shape" .json)
  "${PYTHON:-python3}" "$here/gguf_shapes.py" "$shape" "$work/$name.gguf" >&2
  "$bench" -m "$work/$name.gguf" -ngl 99 -fa on -p 512 -n 128 -d 0,1024 -r 5 -o json >"$results/$name.json"
  rm "$work/$name.gguf"
  "${PYTHON:-python3}" - "$name" "$results/$name.json" <<'END'
import json
import statistics
import sys

name, path = sys.argv[1:]
with open(path) as file:
    tests = json.load(file)
speeds = {(test["n_prompt"], test["n_gen"], test["n_depth"]): statistics.median(test["samples_ts"]) for test in tests}
print(f"{name},{speeds[512, 0, 0]:.1f},{speeds[0, 128, 1024]:.1f}", flush=True)
END
done
