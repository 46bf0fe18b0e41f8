// Any other problem: its variables by name, with their values. Arrays of two dimensions are tables.

import { make, tint } from "./shapes.js";

const MOST = 400; // variables that are shown; more would be no picture
const INDEXED = /^(.+)\[(\d+), ?(\d+)\]$/; // x[0,1]
const HELPER = /^(_\d+|[IB]V\d+)$/; // as translations of models call what they add

export class TableView {
  constructor(run) {
    this.run = run;
    this.element = make("div", "names");
    this.element.tabIndex = 0;
    this.element.setAttribute("role", "group");
    this.element.setAttribute("aria-label", "variables and their values");
    this.cells = [];
    const [tables, plain, helpers] = [new Map(), [], []];
    for (let variable = 0; variable < Math.min(run.size, MOST); variable++) {
      const name = run.nameOf(variable);
      const [, array, row, column] = name.match(INDEXED) ?? [];
      if (array !== undefined) {
        if (!tables.has(array)) tables.set(array, []);
        tables.get(array).push({ variable, row: Number(row), column: Number(column) });
      } else (run.question.problem === "cpmpy" && HELPER.test(name) ? helpers : plain).push(variable);
    }
    for (const [array, entries] of tables) this.element.append(make("h3", "", array), this.#table(entries));
    if (plain.length) this.element.append(this.#list(plain));
    if (helpers.length) this.element.append(make("h3", "", "helpers that the translation added"), this.#list(helpers));
    if (run.size > MOST) this.element.append(make("p", "why", `and ${run.size - MOST} more`));
  }

  #cell(variable, isLabelled) {
    const cell = make("div", "named");
    if (isLabelled) cell.append(make("span", "label", this.run.nameOf(variable)));
    cell.append(make("span", "value"));
    cell.title = this.run.nameOf(variable);
    this.cells.push({ variable, cell });
    return cell;
  }

  #list(variables) {
    const list = make("div", "list");
    list.append(...variables.map((variable) => this.#cell(variable, true)));
    return list;
  }

  #table(entries) {
    const table = make("div", "table");
    const [row, column] = ["row", "column"].map((axis) => Math.min(...entries.map((entry) => entry[axis])));
    table.append(...entries.map((entry) => {
      const cell = this.#cell(entry.variable, false);
      cell.style.gridArea = `${entry.row - row + 1} / ${entry.column - column + 1}`;
      return cell;
    }));
    return table;
  }

  show(view, given) {
    for (const { variable, cell } of this.cells) {
      const hidden = view.hides && view.block.has(variable) && !given.has(variable);
      const isDrawn = !given.has(variable) && view.values[variable] >= 0;
      const marks = [
        given.has(variable) && "given", hidden && "hidden-cell", !view.hides && view.block.has(variable) && "block",
        view.changed.has(variable) && "changed", isDrawn && tint(view.sure[variable]),
        view.clashing.has(variable) && !hidden && "clash", view.unmet.has(variable) && !hidden && "unmet",
      ];
      cell.className = ["named", ...marks].filter(Boolean).join(" ");
      cell.lastChild.textContent = hidden ? "" : this.run.valueOf(variable, view.values[variable]);
    }
  }

  describe(run, view) {
    return `${run.size} variables, ${view.violated.length} violated constraints`;
  }
}
