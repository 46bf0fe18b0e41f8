// Which instances of a trace are shown: one, or two beside each other.

import { make } from "./shapes.js";

export class Chooser {
  // `show` gets the runs that are chosen.
  constructor(element, show) {
    this.element = element;
    this.show = show;
    this.first = this.#select("Instance");
    this.second = this.#select("beside");
    this.clear();
  }

  #select(label) {
    const [box, select] = [make("label", "", label), make("select")];
    select.setAttribute("aria-label", label);
    select.addEventListener("change", () => this.#chosen());
    box.append(select);
    this.element.append(box);
    return select;
  }

  clear() {
    this.runs = [];
    this.element.hidden = true;
  }

  // All runs of a trace can be chosen; two are shown at once, of more the first.
  set(runs) {
    this.runs = runs;
    this.element.hidden = runs.length < 2;
    const names = runs.map((run, number) => new Option(`${run.name}: ${summary(run)}`, number));
    this.first.replaceChildren(...names);
    this.second.replaceChildren(new Option("nothing", ""), ...names.map((option) => option.cloneNode(true)));
    this.second.value = runs.length === 2 ? "1" : "";
    this.#chosen();
  }

  #chosen() {
    const numbers = [this.first.value, this.second.value].filter((value) => value !== "");
    this.show(numbers.map((number) => this.runs[Number(number)]));
  }
}

function summary({ result, steps }) {
  return `${result?.status ?? "not done"}, ${steps.length} step${steps.length === 1 ? "" : "s"}`;
}
