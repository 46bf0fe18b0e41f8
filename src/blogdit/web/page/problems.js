// What can be asked: puzzles, graphs, and texts in the formats that blogdit reads.

import { randomNumbers } from "./layout.js";
import { symbol } from "./trace.js";

export const PUZZLES = [
  ["easy, 38 givens", ".6..2..5...97..63.318......6924.1...87163..4.543.9...61.527.3....6..3.757....9.6."],
  ["medium, 30 givens", ".2..9.86...721.35.6..75.1....5.......4.....35...523..4..26.9..1...1...8.....3.2.6"],
  ["hard, 25 givens", "2.59....1....7.854........6.4...852....73...........3.6.21......7..9....81.3..9.."],
  ["17 givens", ".......1.4.........2...........5.4.7..8...3....1.9....3..4..2...5.1........8.6..."],
  ["17 givens, another", ".......12....35......6...7.7.....3.....4..8..1...........12.....8.....4..5....6.."],
  ["empty", ".".repeat(81)],
];

export function valuesOf(puzzle) {
  return Int32Array.from(puzzle, (character) => (character === "." || character === "0" ? -1 : parseInt(character, 36) - 1));
}

export function puzzleOf(values) {
  return Array.from(values, (value) => (value < 0 ? "." : symbol(value))).join("");
}

// A random graph with a number of edges; the same seed gives the same graph.
export function randomEdges(vertices, perVertex, seed) {
  const random = randomNumbers(seed * 1000003 + vertices);
  const possible = (vertices * (vertices - 1)) / 2;
  const wanted = Math.min(Math.round(vertices * perVertex), possible);
  const taken = new Set();
  while (taken.size < wanted) {
    const [a, b] = [Math.floor(random() * vertices), Math.floor(random() * vertices)];
    if (a !== b) taken.add(Math.min(a, b) * vertices + Math.max(a, b));
  }
  return [...taken].sort((a, b) => a - b).map((key) => [Math.floor(key / vertices), key % vertices]);
}

export function graphText(vertices, edges) {
  return `p edge ${vertices} ${edges.length}\n${edges.map(([a, b]) => `e ${a + 1} ${b + 1}\n`).join("")}`;
}

export function edgesOfText(text) {
  const rows = text.split("\n").map((line) => line.trim().split(/\s+/));
  const vertices = Number(rows.find((row) => row[0] === "p")?.[2] ?? 0);
  const edges = rows.filter((row) => row[0] === "e").map((row) => [Number(row[1]) - 1, Number(row[2]) - 1]);
  return { vertices, edges };
}

export const EXAMPLE_TEXT = `import cpmpy as cp

# SEND + MORE = MONEY
s, e, n, d, m, o, r, y = cp.intvar(0, 9, shape=8)
model = cp.Model(
    cp.AllDifferent([s, e, n, d, m, o, r, y]),
    1000*s + 100*e + 10*n + d + 1000*m + 100*o + 10*r + e
        == 10000*m + 1000*o + 100*n + 10*e + y,
    s > 0, m > 0)
`;
