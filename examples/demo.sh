#!/usr/bin/env bash
# What `make demo` runs: watch the sampler solve a Sudoku, colour a graph, cut a graph, then check answers exactly.
# Usage: examples/demo.sh BLOGDIT
set -euo pipefail
blogdit=$(realpath "${1:-.venv/bin/blogdit}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$(dirname "$0")"
cp ./*.txt ./*.col ./*.gset ./*.jsonl "$work"
cd "$work"
head -1 sudoku.txt > puzzle.txt

show() {
    echo "\$ blogdit $*"
    "$blogdit" "$@"
}

echo "# The sampler alone. Each step hides a block of cells and draws them anew."
show solve puzzle.txt --finish none --live 2>&1 | grep -v -e "^problem" -e "^sudoku " -e "steps/s"
echo
echo "# Sampler, then finisher. Every answer says who found it."
show solve graph.col
echo
show solve cut.gset --target 93 --time-limit 20
echo
echo "# Many puzzles go into a file. verify checks every answer and shares nothing with the solver."
show solve sudoku.txt --out answers.jsonl
show verify sudoku.txt answers.jsonl
echo
echo "# A wrong answer: a solution with its first two cells swapped"
sed -E '/sudoku:1"/!d; s/.*"values": "(.)(.)([^"]*)".*/\2\1\3/' answers.jsonl > wrong.txt
show verify puzzle.txt wrong.txt || echo "(exit code $?)"
