#!/usr/bin/env bash
# What `make demo` runs: generate puzzles, then check answers exactly. Usage: examples/demo.sh BLOGDIT
set -euo pipefail
blogdit=$(realpath "${1:-.venv/bin/blogdit}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$(dirname "$0")"
cp ./*.txt ./*.col ./*.gset ./*.jsonl "$work"
cd "$work"

show() {
    echo "\$ blogdit $*"
    "$blogdit" "$@"
}

show generate sudoku --count 3 --seed 1 --out puzzles.txt
cat puzzles.txt
echo
show verify sudoku.txt sudoku-solutions.jsonl
show verify graph.col graph-solutions.jsonl
show verify cut.gset cut-solutions.jsonl
echo
echo "# A wrong answer: a solution with its first two cells swapped"
head -1 sudoku.txt > puzzle.txt
sed -E '1!d; s/.*"values": "(.)(.)([^"]*)".*/\2\1\3/' sudoku-solutions.jsonl > wrong.txt
show verify puzzle.txt wrong.txt || echo "(exit code $?)"
