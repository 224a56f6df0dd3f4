#!/usr/bin/env bash
# Runs the oracle in a Python environment of its own, which it installs once.
#
# The environment lives outside the clone, named by a hash of requirements.txt, so that several clones share it and a
# changed pin builds a new one. It takes about 6 GB on Linux, because PyTorch's wheels bring CUDA; nothing here uses a GPU.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${PYTHON:-python3}

die() {
  echo "oracle: $*" >&2
  exit 2
}

command -v "$python" >/dev/null || die "needs Python 3.11 or newer: install it, or name one with PYTHON=…"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || die "needs Python 3.11 or newer, $python is older"

hash=$("$python" -c '
import hashlib, sys
print(hashlib.sha256(open(sys.argv[1], "rb").read() + sys.version[:4].encode()).hexdigest()[:12])' "$here/requirements.txt")
env=${XDG_CACHE_HOME:-$HOME/.cache}/millrace/oracle-$hash

# READY is written last: an install that was cut off is done again.
if [ ! -e "$env/READY" ]; then
  echo "oracle: installing its Python environment in $env (once; PyTorch is large)" >&2
  rm -rf "$env"
  mkdir -p "$(dirname "$env")"
  "$python" -m venv "$env" || die "python3 -m venv failed: on Debian, apt install python3-venv"
  "$env/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt" >&2 || die "pip install failed"
  touch "$env/READY"
fi

[ "${1:-}" != --install-only ] || { echo "$env"; exit 0; }

# Nothing is ever looked up on a hub: all models are made here.
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH=$(dirname "$here")
exec "$env/bin/python" -P -m oracle "$@"
