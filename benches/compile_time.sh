#!/bin/sh
# What the attribute costs the compiler: 200 functions under `#[command]` against 200 under `#[tracing::instrument]`, and 200 bare ones as the floor. One run,
# rounds in turn, so that a busy machine is busy for all; prints the minimum and median of each and the ratio of the medians.
set -eu
cd "$(dirname "$0")/.."
ROOT=$PWD
WORK=$ROOT/target/compile-time
ROUNDS=${ROUNDS:-5}

functions() { # attribute
    for number in $(seq 1 200); do
        printf '%s\npub async fn get_%s(id: u32, name: &str) -> Result<usize, String> {\n' "$1" "$number"
        printf '    if name.is_empty() { return Err(format!("no name for {id}")); }\n    Ok(name.len() + id as usize)\n}\n'
    done
}

package() { # name, dependency, attribute
    mkdir -p "$WORK/$1/src"
    printf '[package]\nname = "%s"\nversion = "0.0.0"\nedition = "2024"\n\n[dependencies]\n%s\n' "$1" "$2" >"$WORK/$1/Cargo.toml"
    functions "$3" >"$WORK/$1/src/lib.rs"
}

mkdir -p "$WORK"
printf '[workspace]\nmembers = ["bare", "command", "instrument"]\nresolver = "3"\n' >"$WORK/Cargo.toml"
package bare "" ""
package command "hystrix-core = { path = \"$ROOT/hystrix-core\" }" \
    '#[hystrix_core::command(timeout = "250ms", fallback = |_| Ok(0))]'
package instrument 'tracing = "0.1"' '#[tracing::instrument]'
cp "$ROOT/Cargo.lock" "$WORK/Cargo.lock"

once() { # how, package
    touch "$WORK/$2/src/lib.rs"
    start=$(date +%s%N)
    CARGO_INCREMENTAL=0 cargo "$1" --quiet --manifest-path "$WORK/Cargo.toml" -p "$2"
    end=$(date +%s%N)
    echo $(((end - start) / 1000000)) >>"$WORK/$1.$2.times"
}

at() { sort -n "$WORK/$1.$2.times" | sed -n "$3p"; }

MIDDLE=$(((ROUNDS + 1) / 2))
for how in check build; do
    rm -f "$WORK/$how".*.times
    CARGO_INCREMENTAL=0 cargo "$how" --quiet --manifest-path "$WORK/Cargo.toml"
    for _ in $(seq 1 "$ROUNDS"); do
        for name in bare command instrument; do once "$how" "$name"; done
    done
    for name in bare command instrument; do
        printf '%s %-10s  min %6s ms   median %6s ms\n' "$how" "$name" "$(at "$how" $name 1)" "$(at "$how" $name "$MIDDLE")"
    done
    COMMAND=$(at "$how" command "$MIDDLE") INSTRUMENT=$(at "$how" instrument "$MIDDLE")
    printf '%s command / instrument: %s.%02d\n' "$how" $((COMMAND / INSTRUMENT)) $((COMMAND * 100 / INSTRUMENT % 100))
done
