// A puzzle on a grid: typed by key presses, or played. To type, each cell is an input, so that keyboards and readers
// reach it; to play, it is a plain box, which a browser paints several times as fast.

import { symbol } from "./trace.js";
import { make, tint } from "./shapes.js";

export class GridView {
  constructor(side, boxed = true, isTyped = false) {
    this.side = side;
    this.isTyped = isTyped;
    this.box = boxed && Number.isInteger(Math.sqrt(side)) ? Math.sqrt(side) : side;
    this.element = make("div", "grid");
    this.element.setAttribute("role", "group");
    this.element.setAttribute("aria-label", `${side} by ${side} grid`);
    this.element.style.setProperty("--side", side);
    this.cells = Array.from({ length: side * side }, (_, cell) => this.#cell(cell));
    this.lines = this.cells.map((box) => box.className); // which lines of the grid a cell has
    this.element.append(...this.cells);
    this.onEdit = null;
    this.shown = [];
  }

  #cell(cell) {
    const [row, column] = [Math.floor(cell / this.side), cell % this.side];
    const box = this.isTyped ? this.#input(cell, `row ${row + 1} column ${column + 1}`) : make("div", "cell");
    if (column % this.box === 0 && column) box.classList.add("left");
    if (row % this.box === 0 && row) box.classList.add("top");
    return box;
  }

  #input(cell, label) {
    const input = make("input", "cell");
    input.inputMode = "numeric";
    input.maxLength = 1;
    input.autocomplete = "off";
    input.setAttribute("aria-label", label);
    input.tabIndex = cell === 0 ? 0 : -1;
    input.addEventListener("keydown", (event) => this.#key(event, cell));
    input.addEventListener("beforeinput", (event) => event.preventDefault());
    input.addEventListener("input", () => (input.value = this.shown[cell]?.text ?? ""));
    input.addEventListener("focus", () => this.#focus(cell));
    // Phones have no key events that say which key it was.
    input.addEventListener("beforeinput", (event) => event.data && this.#type(event.data, cell));
    return input;
  }

  #focus(cell) {
    this.cells.forEach((input, other) => (input.tabIndex = other === cell ? 0 : -1));
  }

  #key(event, cell) {
    const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.side, ArrowDown: this.side };
    if (moves[event.key] !== undefined) {
      const target = cell + moves[event.key];
      const sameRow = Math.floor(target / this.side) === Math.floor(cell / this.side);
      if (this.cells[target] && (Math.abs(moves[event.key]) > 1 || sameRow)) this.cells[target].focus();
      event.preventDefault();
      event.stopPropagation();
    } else if (["Backspace", "Delete", "0", ".", " "].includes(event.key) && this.onEdit) {
      this.onEdit(cell, -1);
      event.preventDefault();
      event.stopPropagation();
    }
  }

  #type(text, cell) {
    const value = Array.from({ length: this.side }, (_, v) => symbol(v)).indexOf(text.toUpperCase());
    if (this.onEdit && value >= 0) {
      this.onEdit(cell, value);
      this.cells[Math.min(cell + 1, this.cells.length - 1)].focus();
    } else if (this.onEdit && ["0", ".", " "].includes(text)) this.onEdit(cell, -1);
  }

  // A puzzle to edit: values, -1 where a cell is open.
  edit(values) {
    const none = new Set();
    this.show({ values, sure: [], block: none, changed: none, clashing: none, unmet: none, hides: false }, new Map(
      [...values.entries()].filter(([, value]) => value >= 0)));
  }

  show(view, given) {
    this.cells.forEach((box, cell) => {
      const hidden = view.hides && view.block.has(cell) && !given.has(cell);
      const value = view.values[cell];
      const text = value < 0 || hidden ? "" : symbol(value);
      const isDrawn = !given.has(cell) && value >= 0 && view.sure[cell] !== undefined;
      const marks = [
        given.has(cell) && "given", hidden && "hidden-cell", !view.hides && view.block.has(cell) && "block",
        view.changed.has(cell) && "changed", isDrawn && tint(view.sure[cell]),
        view.clashing.has(cell) && !hidden && "clash", view.unmet.has(cell) && !hidden && "unmet",
      ].filter(Boolean).join(" ");
      const old = this.shown[cell];
      if (old?.text === text && old.marks === marks) return;
      this.shown[cell] = { text, marks };
      if (this.isTyped) box.value = text;
      else if (old?.text !== text) box.textContent = text;
      if (old?.marks !== marks) box.className = `${this.lines[cell]} ${marks}`;
    });
  }

  describe(run, view) {
    const open = view.values.reduce((sum, value) => sum + (value < 0), 0);
    return `${open} open cells, ${view.clashing.size} cells clash`;
  }
}
