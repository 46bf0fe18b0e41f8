// What is asked: the puzzle in the grid, the graph on the canvas, or a text; and how it is written into an address.

import { GraphPad } from "./draw.js";
import { GridView } from "./gridview.js";
import { edgesOfText, EXAMPLES, graphText, PUZZLES, puzzleOf, randomEdges, valuesOf } from "./problems.js";
import { make } from "./shapes.js";

const field = (id) => document.getElementById(id);
const EMPTY = PUZZLES.at(-1)[1];
const FIRST = 3; // the puzzle that the page begins with
const KINDS = ["sudoku", "graph", "text"];

export class ProblemPanel {
  constructor() {
    this.grid = new GridView(9, true, true);
    this.pad = new GraphPad((vertices, edges) => {
      this.graph = { vertices, edges, generated: null, place: this.pad.view.place };
      field("vertices").value = vertices;
    });
    this.puzzle = valuesOf(PUZZLES[FIRST][1]);
    this.fileName = ""; // of a text that came from a file
    this.onShow = () => {}; // gets a picture of the problem
    field("puzzle").append(...[...PUZZLES, ["typed", "typed"]].map(([name, text]) => new Option(name, text)));
    field("puzzle").value = PUZZLES[FIRST][1];
    field("example").append(...EXAMPLES.map(([name], number) => new Option(name, number)), new Option("your own", "own"));
    this.#example(0);
    this.generate();
    this.#listen();
  }

  #listen() {
    document.querySelectorAll("input[name=kind]").forEach((radio) => radio.addEventListener("change", () => this.show()));
    field("puzzle").addEventListener("change", ({ target }) => {
      if (target.value !== "typed") this.puzzle = valuesOf(target.value);
      this.show();
    });
    field("clear").addEventListener("click", () => {
      this.puzzle = valuesOf(EMPTY);
      field("puzzle").value = EMPTY;
      this.show();
      this.grid.cells[0].focus();
    });
    field("task").addEventListener("change", () => this.show());
    field("generate").addEventListener("click", () => {
      this.generate();
      this.show();
    });
    field("erase").addEventListener("click", () => {
      this.graph = { vertices: 0, edges: [], generated: null };
      this.show();
    });
    field("draw").addEventListener("click", () => {
      this.pad.drawing = !this.pad.drawing;
      field("draw").setAttribute("aria-pressed", String(this.pad.drawing));
      this.show();
    });
    field("text").addEventListener("input", () => {
      this.fileName = "";
      if (field("example").value !== "own") field("format").value = ""; // that of the example
      field("example").value = "own";
    });
    field("example").addEventListener("change", ({ target }) => {
      if (target.value !== "own") this.#example(Number(target.value));
      this.show();
    });
  }

  #example(number) {
    const [, suffix, text] = EXAMPLES[number];
    Object.assign(field("text"), { value: text });
    for (const [id, value] of [["format", suffix], ["text-task", ""], ["text-colors", ""]]) field(id).value = value;
    this.fileName = "";
  }

  get kind() {
    return document.querySelector("input[name=kind]:checked").value;
  }

  choose(kind) {
    document.querySelector(`input[name=kind][value=${kind}]`).checked = true;
    this.show();
  }

  show() {
    for (const name of KINDS) field(`panel-${name}`).hidden = name !== this.kind;
    field("colors-row").hidden = field("task").value !== "coloring";
    if (this.kind === "sudoku") {
      this.grid.onEdit = (cell, value) => this.#edit(cell, value);
      this.grid.edit(this.puzzle);
      this.onShow(this.grid);
    } else if (this.kind === "graph") {
      this.onShow(this.pad.view);
      this.pad.set(this.graph.vertices, this.graph.edges, this.graph.place ?? null);
      this.graph.place = this.pad.view.place;
    } else this.onShow({ element: make("p", "placeholder", "What you paste here is shown when it is solved.") });
  }

  #edit(cell, value) {
    this.puzzle[cell] = value;
    field("puzzle").value = "typed";
    this.grid.edit(this.puzzle);
  }

  generate() {
    const [vertices, degree, seed] = ["vertices", "degree", "graph-seed"].map((id) => Number(field(id).value));
    const edges = randomEdges(vertices, degree / 2, seed);
    this.graph = { vertices, edges, generated: [vertices, degree, seed] };
  }

  setText(name, text) {
    this.fileName = name;
    field("text").value = text;
    field("format").value = "";
    field("example").value = "own";
    this.choose("text");
  }

  // Where the vertices of a run are to be drawn: as in the picture of the problem.
  get place() {
    return this.kind === "graph" ? this.graph.place : null;
  }

  // The part of a request that says what to solve.
  question() {
    if (this.kind === "sudoku") return { text: puzzleOf(this.puzzle), name: "sudoku", problem: "sudoku" };
    if (this.kind === "graph") {
      const problem = field("task").value;
      const asking = { text: graphText(this.graph.vertices, this.graph.edges), name: "graph.col", problem };
      return problem === "coloring" ? { ...asking, colors: Number(field("colors").value) } : asking;
    }
    const stem = this.fileName.replace(/\.[^.]*$/, "") || "model";
    const asking = { text: field("text").value, name: stem + this.#format() };
    if (field("text-task").value) asking.problem = field("text-task").value;
    if (field("text-colors").value) asking.colors = Number(field("text-colors").value);
    return asking;
  }

  #format() {
    const known = field("format").value || this.fileName.match(/\.[^.]*$/)?.[0];
    return known ?? (/^\s*(import|from) cpmpy/m.test(field("text").value) ? ".py" : "");
  }

  // As parameters of an address.
  state() {
    const parameters = new URLSearchParams({ p: this.kind });
    if (this.kind === "sudoku") parameters.set("t", puzzleOf(this.puzzle));
    if (this.kind === "graph") {
      parameters.set("task", field("task").value);
      if (field("task").value === "coloring") parameters.set("k", field("colors").value);
      if (this.graph.generated) parameters.set("g", this.graph.generated.join(","));
      else parameters.set("t", graphText(this.graph.vertices, this.graph.edges));
    }
    if (this.kind === "text") {
      const [task, k] = [field("text-task").value, field("text-colors").value];
      const named = { t: field("text").value, f: this.#format(), task, k };
      for (const [name, value] of Object.entries(named)) if (value) parameters.set(name, value);
    }
    return parameters;
  }

  restore(parameters) {
    const text = parameters.get("t");
    const which = KINDS.includes(parameters.get("p")) ? parameters.get("p") : "sudoku";
    if (which === "sudoku" && /^[.0-9]{81}$/.test(text ?? "")) {
      this.puzzle = valuesOf(text);
      field("puzzle").value = PUZZLES.find(([, known]) => known === text)?.[1] ?? "typed";
    }
    if (which === "graph") this.#restoreGraph(parameters, text);
    if (which === "text" && text !== null) {
      const named = { text, format: parameters.get("f"), "text-task": parameters.get("task"), "text-colors": parameters.get("k") };
      for (const [id, value] of Object.entries(named)) field(id).value = value ?? "";
      const known = EXAMPLES.findIndex(([, , example]) => example === text);
      field("example").value = known < 0 ? "own" : known;
    }
    this.choose(which);
  }

  #restoreGraph(parameters, text) {
    field("task").value = parameters.get("task") ?? "coloring";
    if (parameters.has("k")) field("colors").value = parameters.get("k");
    if (parameters.has("g")) {
      const [vertices, degree, seed] = parameters.get("g").split(",");
      for (const [id, value] of Object.entries({ vertices, degree, "graph-seed": seed })) field(id).value = value;
      this.generate();
    } else if (text) this.graph = { ...edgesOfText(text), generated: null };
  }
}
