// One run on the page: its picture, its curves, and the facts in words.

import { Curve } from "./curve.js";
import { edgesOf, GraphView } from "./graphview.js";
import { GridView } from "./gridview.js";
import { make } from "./shapes.js";
import { TableView } from "./tableview.js";

const VALID = ["solved", "optimal", "feasible"];

export function viewOf(run, place = null) {
  const edges = edgesOf(run.question);
  if (edges) return new GraphView(run.size, edges, run.question.problem, place);
  const side = Math.sqrt(run.size);
  if (["sudoku", "latin"].includes(run.question.problem)) return new GridView(side, run.question.problem === "sudoku");
  return new TableView(run);
}

export class Lane {
  constructor(title = "") {
    this.element = make("article", "lane");
    this.title = make("h2", "lane-title", title);
    this.picture = make("div", "picture");
    this.curve = new Curve();
    this.facts = make("dl", "facts");
    this.legend = legend();
    this.verdict = make("p", "verdict");
    this.verdict.setAttribute("role", "status");
    this.broken = make("ul", "broken");
    const words = [this.verdict, this.facts, this.curve.element, this.broken, this.legend];
    this.element.append(this.title, this.picture, ...words);
    this.rows = new Map();
    this.run = null;
    this.working = false;
  }

  setTitle(text) {
    this.title.textContent = text;
  }

  // A picture without a run: a puzzle that is typed, a graph that is drawn.
  preview(view) {
    this.run = null;
    this.view = view;
    this.picture.replaceChildren(view.element);
    this.#clear();
  }

  begin(run, place = null) {
    this.run = run;
    this.view = viewOf(run, place);
    this.picture.replaceChildren(this.view.element);
    this.#clear();
    this.show(0);
  }

  #clear() {
    this.rows.clear();
    this.facts.replaceChildren();
    this.broken.replaceChildren();
    this.verdict.textContent = "";
    this.verdict.className = "verdict";
    this.curve.element.hidden = this.legend.hidden = true;
  }

  show(position) {
    const run = this.run;
    if (!run) return;
    const view = run.at(position);
    this.legend.hidden = false;
    this.view.show(view, run.given);
    this.view.element.setAttribute("aria-label", `${run.name}: ${this.view.describe(run, view)}`);
    this.#curves(view);
    this.#facts(view);
    this.#verdict(view);
    this.#violated(view);
  }

  #curves(view) {
    const run = this.run;
    this.curve.element.hidden = run.steps.length < 2;
    if (run.steps.length < 2) return;
    const name = run.optimises ? "chain_objectives" : "chain_violations";
    if (this.plotted !== run.steps.length || this.plottedRun !== run) {
      const chains = run.steps[0][name]?.length ?? 0;
      const value = (step, chain) => (run.optimises && step.chain_violations[chain] ? null : step[name][chain]);
      this.series = Array.from({ length: chains }, (_, chain) => run.steps.map((step) => value(step, chain)));
      Object.assign(this, { plotted: run.steps.length, plottedRun: run });
    }
    const what = run.optimises ? "objective, where valid" : "violated constraints";
    this.curve.set(this.series, Math.min(view.position, run.steps.length) - 1, `${what}, each chain`);
  }

  #fact(name, value) {
    if (!this.rows.has(name)) {
      const [pair, detail] = [make("div"), make("dd")];
      pair.append(make("dt", "", name), detail);
      this.facts.append(pair);
      this.rows.set(name, detail);
    }
    const detail = this.rows.get(name);
    if (detail.textContent !== value) detail.textContent = value;
  }

  #facts(view) {
    const { run } = this;
    const { step } = view;
    const number = Math.min(view.position, run.steps.length);
    const seconds = run.steps.at(-1)?.seconds ?? 0;
    const best = run.best[number - 1];
    this.#fact("Step", `${number} of ${run.steps.length}`);
    this.#fact("Block", step ? `${step.block.length} of ${run.size - run.given.size} variables` : "none yet");
    this.#fact("Changed", step ? String(step.changed.length) : "none yet");
    this.#fact("Violated", view.isAnswer ? String(run.result.violations) : step ? String(step.violations) : "none yet");
    if (run.optimises) {
      const now = view.isAnswer ? run.result.objective : step?.chain_objectives?.[0];
      this.#fact("Objective", now === undefined || now === null ? "none yet" : shown(now));
      this.#fact("Best so far", best?.objective == null ? "none yet" : shown(best.objective));
    }
    this.#fact("Confidence", step ? `${Math.round(100 * step.confidence)} %` : "none yet");
    this.#fact("Speed", seconds ? `${(run.steps.length / seconds).toFixed(1)} steps/s` : "not known yet");
    this.#fact("Model", String(run.result?.model ?? run.settings?.model ?? "that of the problem"));
  }

  #verdict(view) {
    const { result } = this.run;
    let [text, kind] = ["", ""];
    if (result && view.isAnswer) {
      const valid = VALID.includes(result.status);
      const total = this.run.scopes.length;
      const who = result.found_by === "sampler" ? `the sampler in ${result.steps} step${result.steps === 1 ? "" : "s"}` : (result.found_by ?? "nobody");
      const checked = valid
        ? `exact check: ${total ? `all ${total} constraints hold` : "valid"}`
        : `exact check: ${result.violations} of ${total} constraints violated`;
      const proof = result.proved_by ? `, proved by ${result.proved_by}` : "";
      const value = result.objective == null ? "" : `, objective ${shown(result.objective)}`;
      text = `${valid ? "✓" : "✗"} ${result.status}${value}${proof}. Found by ${who}; ${checked}.`;
      kind = valid ? "good" : "bad";
      if (!this.run.complete) text += " Stopped before its budget was spent.";
    } else if (this.working && view.position >= this.run.steps.length) {
      text = this.waiting ? "The finisher is at work." : "Sampling.";
    } else if (result) text = "The answer is at the end.";
    if (this.verdict.textContent !== text) this.verdict.textContent = text;
    this.verdict.className = `verdict ${kind}`;
  }

  #violated(view) {
    const { run } = this;
    const lines = view.hides ? [] : view.violated.slice(0, 4).map((number) => {
      const { kind, variables } = run.scopes[number] ?? { kind: "constraint", variables: [] };
      const names = variables.slice(0, 9).map((variable) => run.nameOf(variable)).join(", ");
      return `${kind.replace("_", " ")}: ${names}${variables.length > 9 ? ", …" : ""}`;
    });
    if (view.violated.length > 4 && lines.length) lines.push(`and ${view.violated.length - 4} more violated constraints`);
    const key = lines.join("\n");
    if (this.brokenKey === key) return;
    this.brokenKey = key;
    this.broken.replaceChildren(...lines.map((line) => make("li", "", line)));
  }
}

function legend() {
  const words = [["hides", "hidden block"], ["ring", "drawn in this step"], ["unsure", "unsure"], ["red", "violated"]];
  const line = make("p", "legend");
  line.append(...words.map(([mark, text]) => {
    const part = make("span");
    part.append(make("span", `mark ${mark}`), text);
    return part;
  }));
  return line;
}

function shown(number) {
  return String(Number(Number(number).toPrecision(8)));
}
