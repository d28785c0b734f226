# What can be run. Each recipe is one command; `cargo xtask --help` explains more.

# Boot the embedded Kubernetes, install and upgrade an operator, show it.
demo *ARGS:
    cargo xtask demo {{ARGS}}

# Every test, those against the embedded cluster included.
test *ARGS:
    cargo xtask test {{ARGS}}

fmt:
    cargo fmt --all

lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings

# Tests that need no cluster.
unit:
    cargo test --workspace --exclude e2e

# Regenerate files (CRDs).
gen:
    cargo xtask gen

check-gen:
    cargo xtask gen --check

# Build each crate alone, so that its manifest stays honest.
check-crates:
    for manifest in crates/*/Cargo.toml; do cargo check --manifest-path "$manifest" || exit 1; done

deny:
    cargo deny check

doc:
    cargo doc --workspace --no-deps

images:
    cargo xtask images

# Programs, images, chart, bills of materials and sums; `--verify` makes them twice.
release *ARGS:
    cargo xtask release {{ARGS}}

cluster-up *ARGS:
    cargo xtask cluster up {{ARGS}}

cluster-down *ARGS:
    cargo xtask cluster down {{ARGS}}

deploy *ARGS:
    cargo xtask deploy {{ARGS}}

bench *ARGS:
    cargo xtask bench {{ARGS}}

