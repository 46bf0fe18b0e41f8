// A puzzle on a grid: typed by key presses, then played. One input per cell, so that keyboards and readers reach it.

import { symbol } from "./trace.js";
import { make } from "./shapes.js";

export class GridView {
  constructor(side, boxed = true) {
    this.side = side;
    this.box = boxed && Number.isInteger(Math.sqrt(side)) ? Math.sqrt(side) : side;
    this.element = make("div", "grid");
    this.element.setAttribute("role", "group");
    this.element.setAttribute("aria-label", `${side} by ${side} grid`);
    this.element.style.setProperty("--side", side);
    this.cells = Array.from({ length: side * side }, (_, cell) => this.#cell(cell));
    this.element.append(...this.cells);
    this.onEdit = null;
    this.shown = [];
  }

  #cell(cell) {
    const [row, column] = [Math.floor(cell / this.side), cell % this.side];
    const input = make("input", "cell");
    input.inputMode = "numeric";
    input.maxLength = 1;
    input.autocomplete = "off";
    input.setAttribute("aria-label", `row ${row + 1} column ${column + 1}`);
    input.tabIndex = cell === 0 ? 0 : -1;
    if (column % this.box === 0 && column) input.classList.add("left");
    if (row % this.box === 0 && row) input.classList.add("top");
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
    this.cells.forEach((input, cell) => {
      const hidden = view.hides && view.block.has(cell) && !given.has(cell);
      const value = view.values[cell];
      const text = value < 0 || hidden ? "" : symbol(value);
      const marks = [
        given.has(cell) && "given", hidden && "hidden-cell", !view.hides && view.block.has(cell) && "block",
        view.changed.has(cell) && "changed", view.clashing.has(cell) && !hidden && "clash",
        view.unmet.has(cell) && !hidden && "unmet",
      ].filter(Boolean).join(" ");
      const sure = given.has(cell) || value < 0 || view.sure[cell] === undefined ? 1 : view.sure[cell];
      const old = this.shown[cell];
      if (old?.text === text && old.marks === marks && old.sure === sure) return;
      this.shown[cell] = { text, marks, sure };
      input.value = text;
      const [top, left] = [input.classList.contains("top"), input.classList.contains("left")];
      input.className = ["cell", top && "top", left && "left", marks].filter(Boolean).join(" ");
      input.style.setProperty("--sure", sure.toFixed(2));
      input.readOnly = this.onEdit === null;
    });
  }

  describe(run, view) {
    const open = view.values.reduce((sum, value) => sum + (value < 0), 0);
    return `${open} open cells, ${view.clashing.size} cells clash`;
  }
}
