#!/bin/sh
# From nothing to www/models/box.gguf, its card and its reference answers; or one command of it: see README.md.
#   scripts/boxmodel/run.sh                       everything, going on from the checkpoint where there is one
#   scripts/boxmodel/run.sh COMMAND [OPTIONS]     one command, for example `train --resume --max-seconds 460`
#   scripts/boxmodel/run.sh sight                 then what reads pictures: mmproj-box.gguf, its card and reference answers
#   scripts/boxmodel/run.sh sight COMMAND [OPTIONS]
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

sight() {
    (cd "$root/scripts" && TOKENIZERS_PARALLELISM=false "$python" -m boxmodel.sight "$@")
}

# Runs a command of training, which ends with 3 where the slice is over but the training is not.
until_done() {
    status=3
    while [ "$status" -eq 3 ]; do
        status=0
        "$@" || status=$?
    done
    [ "$status" -eq 0 ] || exit "$status"
}

if [ "${1:-}" = sight ]; then
    shift
    if [ $# -gt 0 ]; then
        sight "$@"
        exit
    fi
    sight tokens
    until_done sight train --resume
    sight export
    second=$root/.cache/boxmodel/sight-2.pt third=$root/.cache/boxmodel/sight-3.pt
    fourth=$root/.cache/boxmodel/sight-4.pt
    until_done sight train --on --resume --checkpoint "$second" --seed 20261201 --rate 7e-4 --warmup 200 --decay 0.6 \
        --steps 2300
    sight export --checkpoint "$second"
    until_done sight train --on --resume --checkpoint "$third" --seed 20261202 --rate 8e-4 --warmup 200 --decay 0.5 \
        --steps 9800
    sight export --checkpoint "$third"
    until_done sight train --on --resume --checkpoint "$fourth" --seed 20261203 --rate 4e-4 --warmup 100 --decay 0.7 \
        --steps 2000
    sight export --checkpoint "$fourth"
    sight evaluate
    sight reference
    sight card
    boxmodel reference
    exit
fi

if [ $# -gt 0 ]; then
    boxmodel "$@"
    exit
fi

boxmodel check
boxmodel tokenizer
until_done boxmodel train --resume
boxmodel export
boxmodel reference
boxmodel card
