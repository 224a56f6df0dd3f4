#!/bin/sh
# From nothing to www/models/box.gguf, its card and its reference answers; or one command of it: see README.md.
#   scripts/boxmodel/run.sh                       everything, going on from the checkpoint where there is one
#   scripts/boxmodel/run.sh COMMAND [OPTIONS]     one command, for example `train --resume --max-seconds 460`
# BOXMODEL_PYTHON names a Python that has the requirements already; otherwise an environment is made in .cache/.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
python=${BOXMODEL_PYTHON:-}
if [ -z "$python" ]; then
    venv=$root/.cache/boxmodel/venv
    python=$venv/bin/python
    if ! cmp -s "$root/scripts/boxmodel/requirements.txt" "$venv/requirements.txt"; then
        python3 -m venv "$venv"
        "$python" -m pip install --quiet --requirement "$root/scripts/boxmodel/requirements.txt"
        cp "$root/scripts/boxmodel/requirements.txt" "$venv/requirements.txt"
    fi
fi

boxmodel() {
    (cd "$root/scripts" && TOKENIZERS_PARALLELISM=false "$python" -m boxmodel "$@")
}

if [ $# -gt 0 ]; then
    boxmodel "$@"
    exit
fi

boxmodel check
boxmodel tokenizer
status=3
while [ "$status" -eq 3 ]; do # 3: the slice is over, the training is not
    status=0
    boxmodel train --resume || status=$?
done
[ "$status" -eq 0 ] || exit "$status"
boxmodel export
boxmodel reference
boxmodel card
