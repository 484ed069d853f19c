#!/usr/bin/env bash
# Builds the simulated CANN and lays it out as an installation that ASCEND_HOME_PATH can point to:
#   <target>/ascend-toolkit/latest            with the driver's second set of memory functions (halMemAllocInner, …)
#   <target>/ascend-toolkit-no-inner/latest   without it
# <target> is CARGO_TARGET_DIR or sim/target. Set the environment with:  source <tree>/env.sh
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$here/target}
cargo=${CARGO:-cargo}

# Libraries that only have to exist because somebody is linked to them.
empty=(ge_runner graph msprofiler fmk_parser ascend_protobuf error_manager platform opt_feature cann_kb compress
    opskernel host_cpu_engine slice aoe_executor acl_dvpp_op acl_dvpp_mpi nnopbase c_sec)

empty_library() { # file soname [needed library beside it]
    cc -shared -nostdlib -Wl,-soname,"$2" -Wl,-rpath,'$ORIGIN' -x c /dev/null -o "$1" \
        ${3:+-Wl,--no-as-needed -L"$(dirname "$1")" -Wl,--allow-shlib-undefined -l"$3"}
}

assemble() { # tree
    local tree=$1 lib=$1/lib64
    rm -rf "$tree"
    mkdir -p "$lib/driver" "$tree"/{runtime,compiler,opp,opp_kernel,python/site-packages/hccl}
    local built
    for built in "$CARGO_TARGET_DIR"/release/lib*.so; do
        cp "$built" "$lib/"
    done
    local name
    for name in "${empty[@]}"; do
        empty_library "$lib/lib$name.so" "lib$name.so"
    done
    empty_library "$lib/libascendcl_impl.so" libascendcl_impl.so acl_rt_impl
    mv "$lib/libascend_hal.so" "$lib/driver/"
    ln -s driver/libascend_hal.so "$lib/libascend_hal.so"
    ln -s ../lib64 "$tree/runtime/lib64"
    ln -s ../lib64 "$tree/compiler/lib64"
    # The release is that of aclsysGetCANNVersion.
    local directory
    for directory in "$tree" "$tree"/{runtime,compiler,opp,opp_kernel}; do
        printf 'Version=8.3.RC1\nversion_dir=8.3.RC1\ntimestamp=20250101_000000000\n' >"$directory/version.info"
    done
    printf '__sys_version__ = "8.3.RC1"\n' >"$tree/python/site-packages/hccl/sys_version.py"
    : >"$tree/python/site-packages/hccl/__init__.py"
    cat >"$tree/env.sh" <<EOF
export ASCEND_HOME_PATH="$tree"
export ASCEND_TOOLKIT_HOME="$tree"
export ASCEND_OPP_PATH="$tree/opp"
export LD_LIBRARY_PATH="$lib:$lib/driver\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
export PYTHONPATH="$tree/python/site-packages\${PYTHONPATH:+:\$PYTHONPATH}"
EOF
}

"$cargo" build --release --locked --workspace
assemble "$CARGO_TARGET_DIR/ascend-toolkit/latest"
"$cargo" build --release --locked --workspace --no-default-features
assemble "$CARGO_TARGET_DIR/ascend-toolkit-no-inner/latest"
echo "source $CARGO_TARGET_DIR/ascend-toolkit/latest/env.sh"
