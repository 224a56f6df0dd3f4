#!/bin/sh
# From nothing to www/models/embed.gguf and its card; or one command of it: see README.md.
#   scripts/embedmodel/run.sh                       everything
#   scripts/embedmodel/run.sh COMMAND [OPTIONS]     one command, for example `train --seconds 270`
# EMBEDMODEL_PYTHON names a Python that has the requirements already; otherwise an environment is made in .cache/.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
python=${EMBEDMODEL_PYTHON:-}
if [ -z "$python" ]; then
    venv=$root/.cache/embedmodel/venv
    python=$venv/bin/python
    if ! cmp -s "$root/scripts/embedmodel/requirements.txt" "$venv/requirements.txt"; then
        python3 -m venv "$venv"
        "$python" -m pip install --quiet --requirement "$root/scripts/embedmodel/requirements.txt"
        cp "$root/scripts/embedmodel/requirements.txt" "$venv/requirements.txt"
    fi
fi

embedmodel() {
    (cd "$root/scripts" && "$python" -m embedmodel "$@")
}

if [ $# -gt 0 ]; then
    embedmodel "$@"
    exit
fi

for command in prepare train export evaluate reference; do
    embedmodel "$command"
done
