#!/usr/bin/env bash
# Tests, main job and trace recorder on a machine with a GPU, offline, from this checkout:
#   tools/on_device.sh [RESULTS] [--bench] [--parity] [--record] [--bugs] [--fast]
# RESULTS (benchmarks/results): folder for the JSON files. --bench adds the benchmarks, --parity the
# long runs beside PyTorch and graphed beside ungraphed, --record
# writes the driver's answers as tests/traces and tests/conformance would hold them, --bugs runs
# compute-sanitizer over the seeded bugs, --fast leaves out the tests.
# PYTHON names the interpreter (python3). Packages it lacks may lie on PYTHONPATH.
# WILD_FIRST, WILD_COUNT: seeds of the random sequences to record (700000, 2000).
# JOBS: run so many tests at once (pytest-xdist). ONLY: names of parts, with commas; no other runs.
# BENCH_ROWS: rows of `lowgraph bench` (all), BENCH_MINUTES: time for it (no limit).
#   ONLY="beside rivals" BENCH_MINUTES=8 tools/on_device.sh RESULTS --bench
# fills the table of docs/bench.md, and nothing else, in one run.
# BUGS_SECONDS: time for compute-sanitizer (260); it makes the runs that benchmarks/results lacks or
# holds of other sources. The file goes back there, and tools/bug_table.py writes the page.
# OTHER_BINDINGS: a folder with another release of cuda-bindings; the tests run with it as well.
set -uo pipefail

cd "$(dirname "$0")/.." || exit 2
results=benchmarks/results
bench=no parity=no record=no bugs=no tests=yes
for word in "$@"; do
    case $word in
        --bench) bench=yes ;;
        --parity) parity=yes ;;
        --record) record=yes ;;
        --bugs) bugs=yes ;;
        --fast) tests=no ;;
        -*) echo "unknown option $word" >&2; exit 2 ;;
        *) results=$word ;;
    esac
done
python=${PYTHON:-python3}
WILD_FIRST=${WILD_FIRST:-700000} WILD_COUNT=${WILD_COUNT:-2000}
mkdir -p "$results"
results=$(cd "$results" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=() ran=()

part() {  # part NAME COMMAND...: run it, note its failure, go on
    local name=$1 start=$SECONDS
    shift
    [ -z "${ONLY:-}" ] || [[ ",$ONLY," == *",$name,"* ]] || return 0
    ran+=("$name")
    printf '\n== %s\n' "$name"
    "$@" || failed+=("$name")
    printf -- '-- %s: %d s\n' "$name" $((SECONDS - start))
}

every() {  # every COMMAND ARG... [-- COMMAND ARG...]...: run them all, fail if any did
    local code=0 words=()
    for word in "$@" --; do
        [ "$word" = -- ] || { words+=("$word"); continue; }
        "${words[@]}" || code=1
        words=()
    done
    return "$code"
}

install_offline() {
    local site=$scratch/site find='from lowgraph.kernels.source import kernels_folder as f; print(f())'
    # Into a folder of its own, which is left off the path again: the tests run from the checkout.
    if "$python" -m pip install -q --no-index --no-deps --no-build-isolation --no-compile \
        --target "$site" . 2>"$scratch/log"; then
        (cd "$scratch" && PYTHONPATH="$site${PYTHONPATH:+:$PYTHONPATH}" "$python" -c "$find")
    else
        tail -n 3 "$scratch/log"
        echo "pip could not install it here; the checkout is used as it is"
    fi
}

other_bindings() {  # the folder $OTHER_BINDINGS holds another cuda-bindings; our cubins, same tests
    local -x PYTHONPATH=$OTHER_BINDINGS:$PYTHONPATH
    every "$python" -c \
        'import importlib.metadata as m; print("cuda-bindings", m.version("cuda-bindings"))' \
        -- "$python" -m pytest -q -m "gpu or both" --device cuda \
        tests/driver tests/kernel_library tests/capture tests/ops tests/optim \
        -- "$python" examples/train_small.py --device cuda \
        --steps 200 --json "$results/train_small_other_bindings.json"
}

part "install" install_offline
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
part "environment" "$python" tools/environment.py "$results/environment.json"
gpu_tests() {  # with JOBS several at once, and alone what measures the device's memory
    local all=("$python" -m pytest -q -m "gpu or both" --device cuda --seeds all)
    local alone=(tests/soak tests/capture/test_shapes.py tests/memory/test_owners.py
        tests/field_cases/test_case_17_unbounded_cache.py)
    if [ -z "${JOBS:-}" ]; then
        "${all[@]}" --junitxml "$results/tests.xml"
    else  # benchmark: a plugin that stops where several run at once
        "${all[@]}" -p xdist -p no:benchmark -n "$JOBS" "${alone[@]/#/--ignore=}"
        local code=$?
        "${all[@]}" "${alone[@]}" && return "$code"
    fi
}
[ "$tests" = no ] || part "tests" gpu_tests
part "main job" "$python" examples/train_small.py --device cuda --steps 2000 \
    --json "$results/train_small.json"
part "without a graph" "$python" examples/train_small.py --device cuda --steps 400 --no-graph \
    --json "$results/train_small_no_graph.json"
part "nano" "$python" examples/train_small.py --device cuda --preset nano --steps 1000 \
    --json "$results/train_nano.json"
part "nano without a graph" "$python" examples/train_small.py --device cuda --preset nano \
    --steps 400 --no-graph --json "$results/train_nano_no_graph.json"
part "mamba2" "$python" examples/train_small.py --device cuda --model mamba2 --precision tf32 \
    --steps 500 --json "$results/train_mamba2.json"
part "mamba2 without a graph" "$python" examples/train_small.py --device cuda --model mamba2 \
    --precision tf32 --steps 200 --no-graph --json "$results/train_mamba2_no_graph.json"
part "mamba2-lm" "$python" examples/train_small.py --device cuda --model mamba2-lm --steps 300 \
    --json "$results/train_mamba2_lm.json"
part "small in bfloat16" "$python" examples/train_small.py --device cuda --precision bf16 \
    --steps 2000 --json "$results/train_small_bf16.json"
part "gates of mamba2" "$python" -m lowgraph verify --device cuda --model mamba2 --steps 20 \
    --json "$results/verify_mamba2.json"
part "gates in bfloat16" "$python" -m lowgraph verify --device cuda --precision bf16 --steps 20 \
    --json "$results/verify_bf16.json"
part "gates" "$python" -m lowgraph verify --device cuda --steps 20 --json "$results/verify.json"
atlas_of() {  # atlas_of MODEL FLAGS...: where the launches, nodes and time of its step are
    local model=$1
    shift
    "$python" -m lowgraph atlas --device cuda --model "$model" "$@" --steps 90 \
        --json "$results/atlas_$model.json"
}
part "atlas of charlm" atlas_of charlm
part "atlas of mamba2" atlas_of mamba2 --precision tf32
part "agreement of runs and devices" "$python" tools/agreement.py "$results/agreement.json"
beside() {  # beside MODEL PRESET: graphed beside ungraphed, and lowgraph beside PyTorch
    every "$python" -m lowgraph ab --device cuda --model "$1" --preset "$2" --steps 500 \
        --json "$results/ab_$1.json" --plot "$results/ab_$1.png" \
        -- "$python" tools/parity.py --device cuda --model "$1" --preset "$2" --steps 2000 \
        --json "$results/parity_$1.json" --plot "$results/parity_$1.png"
}
[ "$parity" = no ] || part "beside, mamba2" beside mamba2 perception
[ "$parity" = no ] || part "beside, charlm" beside charlm tiny
[ -z "${OTHER_BINDINGS:-}" ] || part "tests with other bindings" other_bindings
[ "$record" = no ] || part "traces" "$python" tests/traces/record.py --device cuda --missing \
    --out "$results/traces.json"
[ "$record" = no ] || part "random sequences" "$python" tests/traces/record_wild.py run \
    --device cuda --out "$results/wild.json.gz" --jobs 8 "$WILD_FIRST" "$WILD_COUNT"
part "numbers of kernels" "$python" tools/kernel_difference.py run --device cuda "$results/kernels.npz"
[ "$bugs" = no ] || part "compute-sanitizer" "$python" tools/sanitizer_table.py \
    "$results/seeded_bugs_sanitizer.json" --seconds "${BUGS_SECONDS:-260}" --clean --jobs 14 \
    --begin-with benchmarks/results/h200/seeded_bugs_sanitizer.json
for name in step_overhead update_costs journal_cost optimizer_costs charlm_kernels; do
    [ "$bench" = no ] || part "$name" "$python" "benchmarks/$name.py" --device cuda \
        --json "$results/$name.json"
done
beside_rivals() {
    mkdir -p "$results/bench" &&
        "$python" -m lowgraph bench --device cuda --at-once ${BENCH_ROWS:+--rows "$BENCH_ROWS"} \
        ${BENCH_MINUTES:+--minutes "$BENCH_MINUTES"} \
        --json "$results/bench.json" --plot "$results/bench"
}
[ "$bench" = no ] || part "beside rivals" beside_rivals
part "stamp" "$python" tools/environment.py "$results/environment.json" --stamp "$results"

printf '\n'
if [ ${#ran[@]} -eq 0 ]; then
    echo "no part is called $ONLY (or its option is missing); nothing was run" >&2
    exit 2
fi
if [ ${#failed[@]} -gt 0 ]; then
    printf 'failed: %s\n' "${failed[@]}"
    exit 1
fi
echo "all parts passed; results in $results"
