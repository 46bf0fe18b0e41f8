// Any other problem: its variables by name, with their values.

import { make } from "./shapes.js";

const MOST = 400; // variables that are shown; more would be no picture

export class TableView {
  constructor(run) {
    this.element = make("div", "names");
    this.element.tabIndex = 0;
    this.element.setAttribute("role", "group");
    this.element.setAttribute("aria-label", "variables and their values");
    this.cells = [];
    for (let variable = 0; variable < Math.min(run.size, MOST); variable++) {
      const row = make("div", "named");
      row.append(make("span", "label", run.nameOf(variable)), make("span", "value"));
      this.cells.push(row);
      this.element.append(row);
    }
    if (run.size > MOST) this.element.append(make("p", "why", `and ${run.size - MOST} more`));
    this.run = run;
  }

  show(view, given) {
    this.cells.forEach((row, variable) => {
      const hidden = view.hides && view.block.has(variable) && !given.has(variable);
      const marks = [
        given.has(variable) && "given", hidden && "hidden-cell", !view.hides && view.block.has(variable) && "block",
        view.changed.has(variable) && "changed", view.clashing.has(variable) && "clash",
      ];
      row.className = ["named", ...marks].filter(Boolean).join(" ");
      row.lastChild.textContent = this.run.valueOf(variable, view.values[variable]);
      row.style.setProperty("--sure", given.has(variable) ? "1" : view.sure[variable].toFixed(2));
    });
  }

  describe(run, view) {
    return `${run.size} variables, ${view.violated.length} violated constraints`;
  }
}
