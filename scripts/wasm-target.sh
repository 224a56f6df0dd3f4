#!/bin/sh
# Makes `cargo build --target wasm32-unknown-unknown` work; does only what is missing.
#   1. rustup, where it is installed and its server can be reached: seconds.
#   2. Debian without that: Debian's own rustc and Cargo, and the standard library for wasm built once from Debian's source package
#      into /usr/lib/rustlib (about 2 minutes). Where rustup exists, it is linked as the toolchain "wasm".
# MILLRACE_WASM_TARGET=rustup or =debian takes that way only. --packages: no more than Debian's packages, for a machine without Cargo.
set -eu

target=wasm32-unknown-unknown
way=${MILLRACE_WASM_TARGET:-any}
PATH=$PATH:$HOME/.cargo/bin

say() { echo "millrace: $*" >&2; }
fail() { say "$*"; exit 1; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

if [ "${1-}" != --packages ] && [ "$way" != debian ] && command -v rustup >/dev/null; then
  if rustup target add "$target" >&2; then exit 0; fi
  say "rustup could not add $target"
fi
[ "$way" != rustup ] || exit 1
command -v apt-get >/dev/null || fail "install Rust from https://rustup.rs, then run: rustup target add $target"

install_missing() {
  missing=
  for package; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
  done
  [ -n "$missing" ] || return 0
  say "apt-get install$missing"
  as_root apt-get update -qq >&2
  # shellcheck disable=SC2086 # a list of names
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >&2
}
install_missing rustc-web cargo-web rust-web-src rust-web-llvm
# rustc asks for /usr/bin/rust-lld, which is a link to the lld of one version, in a package of that name.
install_missing "$(basename "$(readlink /usr/bin/rust-lld)")"
[ "${1-}" != --packages ] || exit 0

home=/usr/lib/rustlib/$target
built_with=$(/usr/bin/rustc -vV; dpkg-query -W rust-web-src)
if [ "$(cat "$home/built-with" 2>/dev/null)" != "$built_with" ]; then
  say "building Rust's standard library for $target from Debian's source"
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  mkdir "$work/src" "$work/lib"
  echo '#![no_std]' >"$work/src/lib.rs"
  printf '[package]\nname = "std-for-wasm"\nversion = "0.0.0"\nedition = "2021"\n[profile.release]\npanic = "abort"\n' >"$work/Cargo.toml"
  # A released compiler takes -Z build-std only with RUSTC_BOOTSTRAP; bitcode lets std take part in link-time optimisation.
  (cd "$work" && env -u CARGO_TARGET_DIR -u CARGO_BUILD_TARGET_DIR RUSTC_BOOTSTRAP=1 RUSTC=/usr/bin/rustc RUSTFLAGS=-Cembed-bitcode=yes \
    /usr/bin/cargo build --quiet --release --target "$target" -Z build-std=std,panic_abort,test) >&2
  for file in "$work/target/$target/release/deps/"*.rlib; do
    case $file in */libstd_for_wasm-*) ;; *) cp "$file" "$work/lib/" ;; esac
  done
  ls "$work/lib/"libstd-*.rlib >/dev/null 2>&1 || fail "building the standard library for $target left no libstd"
  as_root rm -rf "$home"
  as_root mkdir -p "$home/lib"
  as_root cp "$work/lib/"*.rlib "$home/lib/"
  printf '%s\n' "$built_with" | as_root tee "$home/built-with" >/dev/null
fi

if command -v rustup >/dev/null; then
  sysroot=$(rustup run wasm rustc --print sysroot 2>/dev/null || true)
  [ -n "$sysroot" ] && [ "$(readlink -f "$sysroot")" = /usr ] || rustup toolchain link wasm /usr
fi
