#!/usr/bin/env bash
# The demo behind `make run`: starts one node on loopback, runs a verified chat-like workload on it, shows what it did,
# and serves until Ctrl-C. DEMO_SECONDS=n: the workload takes about n seconds and the demo ends by itself, status 0.
# DEMO_DIR is where its data stays (demo-data); a second run starts warm from it. DEMO_CAP and DEMO_RAM are the node's
# capacity and RAM tier, DEMO_WORK_SECONDS (15) how long the workload takes when the demo then goes on serving.
set -euo pipefail
cd "$(dirname "$0")/.."

programs=${DEMO_PROGRAMS:-build/release/bin}
data=${DEMO_DIR:-demo-data}
seconds=${DEMO_SECONDS:-}
node_pid=

fail() {
  echo "demo: $*" >&2
  exit 1
}

stop_node() {
  [ -n "$node_pid" ] || return 0
  local pid=$node_pid status=0
  node_pid=
  kill -TERM "$pid" 2>/dev/null || true
  wait "$pid" || status=$?
  [ "$status" = 0 ] || echo "demo: the node ended with status $status; its log: $data/node.log" >&2
  return "$status"
}

# Free space decides the capacity of the first run; later runs keep it.
choose_capacity() {
  if [ -n "${DEMO_CAP:-}" ]; then
    echo "$DEMO_CAP"
  elif [ -s "$data/capacity" ]; then
    cat "$data/capacity"
  else
    local free third
    free=$(df --output=avail -B1 "$data" | tail -1)
    third=$((free / 3))
    [ "$third" -ge $((256 << 20)) ] || fail "$data has $((free >> 20)) MiB free; the demo needs 768 MiB"
    echo $((third < (4 << 30) ? third >> 26 << 26 : 4 << 30))
  fi
}

# Sets node_pid, port, admin (address of the HTTP port) and objects from what the node prints when it is ready:
# "PORT 1234", then "READY address=... metrics=127.0.0.1:1235 io=uring objects=0 ...".
start_node() {
  local ready="$data/ready" line
  rm -f "$ready"
  mkfifo "$ready"
  # In a process group of its own: Ctrl-C is for this script, which then stops the node in order.
  setsid "$programs/dfkv_server" --dir "$data/node" --cap "$capacity" --ram-tier-bytes "${DEMO_RAM:-512MiB}" \
    --id demo --port 0 --metrics-port 0 >"$ready" 2>"$data/node.log" 9>&- &
  node_pid=$!
  exec 3<"$ready"
  rm -f "$ready"
  port= admin= objects=0
  while [ -z "$admin" ]; do
    if ! read -r -t 60 -u 3 line; then
      sed 's/^/  /' "$data/node.log" >&2
      fail "the node did not start; its log is above and in $data/node.log"
    fi
    case $line in
      "PORT "*) port=${line#PORT } ;;
      "READY "*)
        admin=$(sed -n 's/.* metrics=\([^ ]*\).*/\1/p' <<<"$line")
        objects=$(sed -n 's/.* objects=\([^ ]*\).*/\1/p' <<<"$line")
        [ -n "$admin" ] || fail "the node has no admin port: $line"
        ;;
    esac
  done
}

[ -z "$seconds" ] || [[ $seconds =~ ^[1-9][0-9]*$ ]] || fail "DEMO_SECONDS=$seconds is not a whole number above 0"
[ -x "$programs/dfkv_server" ] && [ -x "$programs/dfkv_bench" ] ||
  fail "$programs has no dfkv_server and dfkv_bench; run \`make build\` first"
mkdir -p "$data/node" || fail "cannot make $data/node"
exec 9>"$data/lock"
flock -n 9 || fail "another demo runs in $data; stop it, or choose another folder with DEMO_DIR"
trap 'stop_node || true' EXIT
trap 'echo; stop_node; exit $?' INT TERM

capacity=$(choose_capacity)
echo "$capacity" >"$data/capacity"
run=$(cat "$data/runs" 2>/dev/null || echo 0)
start_node
size=$capacity
[[ ! $size =~ ^[0-9]+$ ]] || size="$((size >> 20)) MiB"
echo "node on 127.0.0.1:$port, data in $data ($size), $objects objects found"
echo $((run + 1)) >"$data/runs"

echo "workload: chats with shared system prompts, every byte compared"
"$programs/dfkv_bench" demo --members "demo=127.0.0.1:$port" --run "$run" --seconds "${seconds:-${DEMO_WORK_SECONDS:-15}}" \
  --progress "$([ -t 2 ] && echo auto || echo on)" 9>&- || fail "the workload failed; the node's log: $data/node.log"
cat <<TEXT
  metrics: http://$admin/metrics
  stats:   http://$admin/stats
  health:  http://$admin/healthz
TEXT

if [ -z "$seconds" ]; then
  echo "serving on 127.0.0.1:$port until Ctrl-C, for example:"
  echo "  $programs/dfkv_bench --members demo=127.0.0.1:$port --op both --size 1MiB --count 1000"
  wait "$node_pid"
fi
stop_node
