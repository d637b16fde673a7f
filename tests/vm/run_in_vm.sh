#!/bin/bash
# run_in_vm.sh - run a command in a throw-away VM that has real RDMA verbs devices (Soft-RoCE).
#
#   run_in_vm.sh [-m MEM] [-c CPUS] [-t SECONDS] [-w DIR]... [-r RAILS] [-d SIZE|FILE]... -- command args...
#
# The guest sees the host's root filesystem (a read-only share under a tmpfs overlay, so host-built
# programs just run), the current directory and every -w DIR writable for real, and per rail K:
#   rxe{2K} on r{2K} = 10.77.K.1 ("host A")   <-- veth wire -->   rxe{2K+1} on r{2K+1} = 10.77.K.2 ("host B")
# RoCEv2/IPv4 GID index is 1. -d adds an NVMe drive (/dev/nvme0n1, ...) on a scratch file of SIZE or on FILE.
# Exits with the command's code; 124: it ran past -t SECONDS; 125: the VM could not be had or died.
# Environment: DFKV_VM_CACHE, DFKV_VM_ACCEL (kvm|tcg), DFKV_VM_DISK (drive options), DFKV_VM_QEMU (more
# arguments), DFKV_VM_APPEND (more kernel arguments), DFKV_VM_LOG (where to keep the guest's console).
set -uo pipefail
mem=2G cpus=2 limit=300 rails=1 shares=("$PWD") disks=()
die() { echo "run_in_vm: $*" >&2; exit 125; }
usage() { sed -n '4p' "$0" | cut -c3- >&2; exit 125; }
while getopts m:c:t:w:r:d: o; do case $o in
  m) mem=$OPTARG ;; c) cpus=$OPTARG ;; t) limit=$OPTARG ;; r) rails=$OPTARG ;; d) disks+=("$OPTARG") ;;
  w) shares+=("$(realpath -e -- "$OPTARG")") || die "no such directory: $OPTARG" ;; *) usage ;; esac; done
shift $((OPTIND - 1)); [ $# -gt 0 ] || usage
[ "$PWD" = / ] && shares=("${shares[@]:1}")
cache=${DFKV_VM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/dfkv-vm}
mkdir -p "$cache" || die "cannot make the cache directory $cache"

# ---- what the VM is made of: qemu, tools and a kernel, all from Debian packages -----------------------
need=()
while read -r tool pkg; do command -v "$tool" >/dev/null || [ -x "/sbin/$tool" ] || need+=("$pkg"); done <<'E'
qemu-system-x86_64 qemu-system-x86
busybox busybox-static
modprobe kmod
rdma iproute2
python3 python3-minimal
ibv_devinfo ibverbs-utils
E
[ -e /etc/libibverbs.d/rxe.driver ] || need+=(ibverbs-providers)
apt() { apt-get -qq -o DPkg::Lock::Timeout=300 "$@" >>"$cache/apt.log" 2>&1; }
if [ ${#need[@]} -gt 0 ]; then
  inst() { DEBIAN_FRONTEND=noninteractive apt install -y --no-install-recommends "${need[@]}"; }
  inst || { apt update && inst; } || die "cannot install ${need[*]} (see $cache/apt.log)"
fi
build() { # the kernel (uncompressed, for a PVH boot), its modules, a small initramfs
  local dir v k; dir=$(mktemp -d "$cache/new.XXXX") || return 1
  pkg() { apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends:/{print $2; exit}'; }
  get() { local p; p=$(pkg); [ -n "$p" ] && (cd "$dir" && apt -o APT::Sandbox::User=root download "$p"); }
  get || { apt update && get; } || { echo "cannot download linux-image-amd64 (see $cache/apt.log)" >&2; return 1; }
  dpkg-deb --fsys-tarfile "$dir"/linux-image-*.deb | tar -x -C "$dir" --wildcards './boot/vmlinuz*' \
    './lib/modules/*/modules.*' './lib/modules/*/kernel/'{arch,block,crypto,fs,lib,net}'/*' \
    './lib/modules/*/kernel/drivers/'{block,char,infiniband,md,net/{veth,dummy,ifb,net_failover}.ko,net/virtio_net.ko,nvdimm,nvme,scsi,virtio}'*' \
    || return 1
  v=$(ls "$dir/lib/modules"); k="$dir/lib/modules/$v"; rm -f "$dir"/*.deb
  depmod -b "$dir" "$v" || return 1
  python3 - "$dir/boot/vmlinuz-$v" "$dir/vmlinux" <<'E' || return 1
import lzma, sys
image = open(sys.argv[1], "rb").read()
elf = lzma.LZMADecompressor().decompress(image[image.index(b"\xfd7zXZ\0"):])
assert elf[:4] == b"\x7fELF"
open(sys.argv[2], "wb").write(elf)
E
  mkdir -p "$dir/i/"{bin,dev,proc,sys,m,host,rw,new} && cp "$(command -v busybox)" "$dir/i/bin/" && cat >"$dir/i/init" <<'E'
#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc p /proc; $b mount -t sysfs s /sys; $b mount -t devtmpfs d /dev
for m in /m/*; do $b insmod $m; done
o=trans=virtio,version=9p2000.L,msize=512000
$b mount -t 9p -o $o,ro,cache=loose root /host && $b mount -t tmpfs -o mode=755,size=80% rw /rw &&
$b mkdir /rw/u /rw/w && $b mount -t overlay -o lowerdir=/host,upperdir=/rw/u,workdir=/rw/w ov /new &&
for d in proc sys dev; do $b mkdir -p /new/$d; $b mount --move /$d /new/$d; done &&
$b mount -t tmpfs -o mode=755 run /new/run && $b mkdir /new/run/dfkv-vm &&
$b mount -t 9p -o $o,cache=none ctl /new/run/dfkv-vm && exec $b switch_root /new /bin/bash /run/dfkv-vm/stage2
echo "init: cannot mount the root"; $b reboot -f
E
  chmod +x "$dir/i/init"
  for m in virtio_pci 9pnet_virtio 9p overlay virtio_console; do modprobe -d "$dir" -S "$v" --show-depends $m; done |
    awk '$1=="insmod" && !s[$2]++ {print $2}' | { n=10; while read -r f; do cp "$f" "$dir/i/m/$((n++))-${f##*/}"; done; }
  (cd "$dir/i" && find . | busybox cpio -o -H newc 2>/dev/null) >"$dir/initrd" || return 1
  rm -rf "$dir/i" "$cache/kernel"; mv "$dir" "$cache/kernel"
}
( flock 9; [ -s "$cache/kernel/initrd" ] || build ) 9>"$cache/lock" || die "no kernel for the VM"

# ---- this run: a control directory shared with the guest ------------------------------------------------
run=$(mktemp -d "${TMPDIR:-/tmp}/dfkv-vm.XXXXXX") || die "cannot make a run directory"
qemu= dog= out= err=; console=${DFKV_VM_LOG:-$run/console}; mkdir "$run/ctl"
trap 'for p in $dog $out $err; do kill "$p"; done 2>/dev/null; [ -z "$qemu" ] || { kill -9 "$qemu"; wait "$qemu"; } 2>/dev/null; rm -rf "$run"' EXIT; trap 'exit 130' INT; trap 'exit 143' TERM HUP
export -p >"$run/ctl/env"
printf 'cd %q && exec timeout -k 5 %q' "$PWD" "$limit" >"$run/ctl/cmd"; printf ' %q' "$@" >>"$run/ctl/cmd"
cat >"$run/ctl/stage2" <<'E'
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root; c=/run/dfkv-vm; v=$(uname -r); . $c/vars
off() { [ -z "${1:-}" ] || echo "stage2: $1" >/dev/console; echo o >/proc/sysrq-trigger; while :; do :; done; }
mkdir -p /dev/pts /dev/shm /lib/modules/$v
mount -t devpts p /dev/pts; mount -t tmpfs -o size=80% s /dev/shm; ln -sfn /proc/self/fd /dev/fd
for i in 0,stdin 1,stdout 2,stderr; do ln -sfn /proc/self/fd/${i%,*} /dev/${i#*,}; done
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose mods /lib/modules/$v
n=0; for s in "${shares[@]}"; do mount -i -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=mmap w$((n++)) "$s" || off "cannot mount $s"; done
modprobe -a rdma_rxe rdma_ucm veth; [ "$disks" = 0 ] || modprobe nvme
cd /proc/sys/net/ipv4/conf; echo 0 >all/rp_filter; echo 0 >default/rp_filter; echo 1 >all/accept_local; echo 1 >all/arp_ignore
{ echo link set lo up; echo rule add pref 100 lookup local; echo rule del pref 0 # so that A<->B can leave by the wire
for ((k = 0; k < rails; k++)); do m=02:77:00:00:0$k a=r$((2*k)) b=r$((2*k+1))
  echo link add $a mtu 4200 address $m:01 type veth peer name $b mtu 4200 address $m:02
  for i in 1 2; do d=r$((2*k+i-1)) o=$((3-i)) t=$((200+2*k+i))
    echo addr add 10.77.$k.$i/24 dev $d; echo link set $d up; echo neigh add 10.77.$k.$o lladdr $m:0$o dev $d nud permanent
    echo route add 10.77.$k.$o dev $d src 10.77.$k.$i table $t
    for f in 10.77.$k.$i 0.0.0.0/32; do echo rule add pref 10 iif lo from $f to 10.77.$k.$o lookup $t; done
  done
done; } | ip -batch - || off "cannot set up the interfaces"
for ((k = 0; k < 2*rails; k++)); do echo link add rxe$k type rxe netdev r$k; done | rdma -b - || off "cannot make the rxe devices"
for p in /sys/class/virtio-ports/*; do case $(<$p/name) in out) out=/dev/${p##*/} ;; err) err=/dev/${p##*/} ;; esac; done
ulimit -l unlimited; . $c/env
exec 3> >(exec cat >$out); po=$!; exec 4> >(exec cat >$err); pe=$!; exec 9<> <(:); SECONDS=0
setsid bash $c/cmd >&3 2>&4 3>&- 4>&- 9>&- </dev/null & p=$!; wait $p; rc=$?
[ $rc = 137 ] && [ $SECONDS -ge $limit ] && rc=124; [ $rc = 124 ] && echo "run_in_vm: timed out after $limit s" >&4
kill -9 -- -$p; exec 3>&- 4>&- # what the command left running goes; then its output drains
for ((i = 0; i < 200; i++)); do kill -0 $po || kill -0 $pe || break; read -rt .05 -u 9; done
sync; for s in "${shares[@]}"; do umount -l "$s"; done; echo $rc >$c/rc; off
E
declare -p shares rails limit >"$run/ctl/vars"; echo "disks=${#disks[@]}" >>"$run/ctl/vars"
accel=${DFKV_VM_ACCEL:-tcg}; [ -z "${DFKV_VM_ACCEL:-}" ] && [ -w /dev/kvm ] && grep -qwE 'vmx|svm' /proc/cpuinfo && accel=kvm
[ "$accel" = kvm ] && q=(-accel kvm -cpu host) || q=(-accel tcg,thread=multi,tb-size=512 -cpu max,la57=off,smap=off,smep=off,pku=off)
fs() { q+=(-fsdev "local,id=$1,path=${2//,/,,},security_model=none,multidevs=remap$3" -device "virtio-9p-pci,fsdev=$1,mount_tag=$1"); }
fs root / ,readonly=on; fs ctl "$run/ctl" ''; fs mods "$(echo "$cache"/kernel/lib/modules/*)" ,readonly=on
n=0; for s in "${shares[@]}"; do fs w$((n++)) "$s" ''; done
n=0; for d in "${disks[@]}"; do
  [ -e "$d" ] || [[ $d == */* ]] || { truncate -s "$d" "$run/disk$n" || die "bad disk size: $d"; d=$run/disk$n; }
  q+=(-drive "file=${d//,/,,},format=raw,if=none,id=d$n,${DFKV_VM_DISK:-cache=writeback}" -device "nvme,drive=d$n,serial=d$n"); n=$((n + 1)); done
q+=(-device virtio-serial-pci)
for s in out err; do mkfifo "$run/$s"; q+=(-chardev "file,id=$s,path=$run/$s" -device "virtserialport,chardev=$s,name=$s"); done
cat "$run/out" & out=$!; cat "$run/err" >&2 & err=$!
# shellcheck disable=SC2086
qemu-system-x86_64 "${q[@]}" -M q35 -m "$mem" -smp "$cpus" -nodefaults -no-user-config -display none -no-reboot \
  -serial "file:$console" -kernel "$cache/kernel/vmlinux" -initrd "$cache/kernel/initrd" -object rng-random,id=rng,filename=/dev/urandom \
  -device virtio-rng-pci,rng=rng -append "console=ttyS0 quiet panic=-1 oops=panic mitigations=off nokaslr ${DFKV_VM_APPEND:-}" \
  ${DFKV_VM_QEMU:-} </dev/null >"$run/qemu" 2>&1 & qemu=$!
( read -rt $((limit + 60)) <> <(:); echo hung >"$run/hung"; kill -9 $qemu ) >/dev/null 2>&1 & dog=$!
wait $qemu; qrc=$?; qemu=; kill $dog 2>/dev/null; dog=
[ -s "$run/ctl/rc" ] || { for p in $out $err; do kill $p 2>/dev/null; done; }
wait $out $err 2>/dev/null
[ -s "$run/ctl/rc" ] && exit "$(<"$run/ctl/rc")"
{ echo "run_in_vm: the VM ended without a result (qemu exit $qrc$([ -e "$run/hung" ] && echo ", hung past $((limit + 60)) s")):"
  cat "$run/qemu"; [ -e "$console" ] && tail -n 30 "$console"; } >&2
[ -e "$run/hung" ] && exit 124; exit 125
