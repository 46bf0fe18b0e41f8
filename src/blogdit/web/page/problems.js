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

const MAP = {
  format: "blogdit-csp", version: 1, name: "a map in three colours", domain_sizes: [3, 3, 3, 3, 3, 3, 3],
  labels: ["Western Australia", "Northern Territory", "South Australia", "Queensland", "New South Wales", "Victoria", "Tasmania"],
  values: ["red", "green", "blue"],
  constraints: [{ kind: "not_equal", pairs: [[0, 1], [0, 2], [1, 2], [1, 3], [2, 3], [2, 4], [2, 5], [3, 4], [4, 5]] }],
};
const SHIFTS = {
  format: "blogdit-csp", version: 1, name: "shifts with wishes", domain_sizes: [3, 3, 3, 3],
  labels: ["Ada", "Ben", "Cem", "Dora"], values: ["early", "late", "off"],
  constraints: [
    { kind: "count", scopes: [[0, 1, 2, 3], [0, 1, 2, 3]], values: [0, 1], low: [1, 1], high: [2, 2] },
    { kind: "not_equal", pairs: [[0, 1]] },
    { kind: "sum", scopes: [[0], [1], [2], [3]], equals: [[2], [2], [2], [0]], low: [1, 1, 1, 1], weight: [3, 2, 2, 1] },
  ],
};
// A line for each key and for each constraint.
function written(instance) {
  const line = ([key, value]) => {
    const rows = key === "constraints" ? `[\n${value.map((one) => `    ${JSON.stringify(one)}`).join(",\n")}\n  ]` : JSON.stringify(value);
    return `  ${JSON.stringify(key)}: ${rows}`;
  };
  return `{\n${Object.entries(instance).map(line).join(",\n")}\n}\n`;
}

// Name, suffix, text.
export const EXAMPLES = [
  ["SEND + MORE = MONEY", ".py", `import cpmpy as cp

# SEND + MORE = MONEY
s, e, n, d, m, o, r, y = cp.intvar(0, 9, shape=8)
model = cp.Model(
    cp.AllDifferent([s, e, n, d, m, o, r, y]),
    1000*s + 100*e + 10*n + d + 1000*m + 100*o + 10*r + e
        == 10000*m + 1000*o + 100*n + 10*e + y,
    s > 0, m > 0)
`],
  ["a magic square", ".py", `import cpmpy as cp

n = 3
total = 15
x = cp.intvar(1, n*n, shape=(n, n), name="x")
model = cp.Model(cp.AllDifferent(x.flatten()))
for i in range(n):
    model += cp.sum(x[i, :]) == total
    model += cp.sum(x[:, i]) == total
model += x[0, 0] + x[1, 1] + x[2, 2] == total
model += x[0, 2] + x[1, 1] + x[2, 0] == total
`],
  ["a map in three colours", ".json", written(MAP)],
  ["shifts with wishes", ".json", written(SHIFTS)],
  ["clauses", "", `c (a or not b) and (b or c) and (not a or not c)
p cnf 3 3
1 -2 0
2 3 0
-1 -3 0
`],
];
