# Shared by the scripts here: where the tree is, and cargo on the search path.
# shellcheck shell=bash
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)

# rustup puts cargo here, and a shell that was open before does not know it yet.
if ! command -v cargo >/dev/null && [ -x "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" ]; then
    PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
fi

# One sentence of what is wrong, one of what to do.
fail() {
    printf '%s: %s\n' "${0##*/}" "$1" >&2
    [ $# -lt 2 ] || printf '  %s\n' "$2" >&2
    exit 1
}
