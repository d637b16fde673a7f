"""What libdfkv.so shows and needs, from the outside: exports, SONAME, NEEDED, the newest glibc symbol.

usage: library_test.py libdfkv.so dfkv.map dfkv_c_api.h
"""
import re
import subprocess
import sys

V2 = set("""dfkv_batch_exist dfkv_batch_get dfkv_batch_get_auto dfkv_batch_get_auto_sg dfkv_batch_put
dfkv_batch_put_sg dfkv_batch_remove dfkv_close dfkv_exist dfkv_get dfkv_get_auto dfkv_max_sg_segs dfkv_open_v2
dfkv_put dfkv_register_memory dfkv_remove dfkv_stats_snapshot dfkv_transport_mode dfkv_version""".split())
GLIBC_MAX = (2, 35)
NEEDED = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def main():
    library, version_script, header = sys.argv[1:4]
    failures = []

    def expect(good, what):
        if not good:
            failures.append(what)

    exported = {line.split()[-1] for line in output("nm", "-D", "--defined-only", library).splitlines()}
    listed = set(re.findall(r"^\s+(dfkv_\w+);", open(version_script).read(), re.M))
    declared = set(re.findall(r"\b(dfkv_\w+)\(", open(header).read()))
    expect(exported == listed, f"exports differ from {version_script}: {sorted(exported ^ listed)}")
    expect(declared == listed, f"the header differs from {version_script}: {sorted(declared ^ listed)}")
    expect(len(V2) == 19 and V2 <= exported, f"ABI v2 lacks {sorted(V2 - exported)}")

    dynamic = output("readelf", "-dW", library)
    needed = set(re.findall(r"NEEDED.*\[(.*)\]", dynamic))
    expect(needed <= NEEDED, f"needs {sorted(needed - NEEDED)}")
    expect("Library soname: [libdfkv.so.2]" in dynamic, "SONAME is not libdfkv.so.2")
    expect("TEXTREL" not in dynamic, "has text relocations")

    versions = {tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([0-9.]+)", output("objdump", "-T", library))}
    too_new = sorted(v for v in versions if v > GLIBC_MAX)
    expect(not too_new, f"needs glibc newer than {GLIBC_MAX}: {too_new}")

    if failures:
        sys.exit("\n".join(failures))
    print(f"{len(exported)} exports, needs {sorted(needed)}, glibc {max(versions)}")


if __name__ == "__main__":
    main()
