// A training run: loss terms, tau, validation, and what the current weights can do on fixed instances.

import { events } from "./api.js";
import { Curve } from "./curve.js";
import { make } from "./shapes.js";

const PANELS = [
  ["Loss", ["loss"]],
  ["Energy", ["energy"]],
  ["Entropy", ["entropy"]],
  ["Surprise about own answers", ["surprise"]],
  ["Temperature tau", ["tau"]],
  ["Gradient norm", ["gradient_norm"]],
];

export class TrainView {
  constructor(element) {
    this.element = element;
    this.records = [];
    this.summary = make("section", "wide");
    this.heading = make("h2", "", "Training run");
    this.words = make("p", "", "Waiting for the first record.");
    this.words.setAttribute("role", "status");
    this.summary.append(this.heading, this.words);
    this.score = this.#section("Current weights on fixed instances");
    this.score.classList.add("wide");
    this.score.hidden = true; // until there is one
    this.table = make("table", "scores");
    this.score.append(this.table);
    this.valid = this.#panel("Validation score", ["valid_score"]);
    element.append(this.summary, this.score);
    this.panels = [this.valid, ...PANELS.map(([title, names]) => this.#panel(title, names))];
    element.append(...this.panels.map((panel) => panel.section));
  }

  #section(title) {
    const section = make("section");
    section.append(make("h2", "", title));
    return section;
  }

  #panel(title, names) {
    const [section, curve] = [this.#section(title), new Curve(`curve of ${title}`)];
    section.append(curve.element);
    return { section, curve, names };
  }

  async follow(path) {
    for await (const { kind, data } of events(path)) {
      if (kind === "run") this.heading.textContent = `${data.folder}: a model for ${data.problem}`;
      else if (kind === "again") this.records = [];
      else if (kind === "records") this.#add(data);
      else if (kind === "score") this.#scored(data);
      else if (kind === "failed") this.words.textContent = data.error;
    }
  }

  #add({ records, running }) {
    this.records.push(...records);
    const last = this.records.at(-1);
    if (!last) return;
    const minutes = (last.seconds / 60).toFixed(1);
    const rate = (last.update / last.seconds).toFixed(1);
    const best = this.records.reduce((most, record) => Math.max(most, record.valid_score ?? -Infinity), -Infinity);
    const scored = Number.isFinite(best) ? ` Best validation score ${Number(best.toPrecision(4))}.` : "";
    this.words.textContent =
      `Update ${last.update} after ${minutes} minutes, ${rate} updates/s.${scored} ${running ? "It is running." : "It is at rest."}`;
    for (const { section, curve, names } of this.panels) {
      const series = names.map((name) => this.records.map((record) => record[name] ?? null));
      const own = series.map((line) => (names[0].startsWith("valid") ? line.filter((value) => value !== null) : line));
      section.hidden = !own.some((line) => line.some((value) => value !== null && value !== 0));
      if (!section.hidden) curve.set(own, null, "", `update ${last.update}`);
    }
  }

  #scored({ update, steps, valid, instances }) {
    const optimises = instances.some((row) => row.objective !== undefined);
    const head = make("thead");
    head.append(rowOf("th", ["instance", "status", "violated", ...(optimises ? ["objective", "reference", "gap"] : [])]));
    const body = make("tbody");
    instances.forEach((row, index) => {
      const gap = row.reference ? (100 * Math.abs(row.reference - row.objective)) / Math.abs(row.reference) : 0;
      const more = optimises ? [rounded(row.objective), rounded(row.reference), `${gap.toFixed(1)} %`] : [];
      body.append(rowOf("td", [index + 1, row.status, row.violations, ...more]));
    });
    const words = `After update ${update ?? "?"}: ${valid} of ${instances.length} valid, the sampler alone, ${steps} steps.`;
    const caption = make("caption", "why", words);
    this.table.replaceChildren(caption, head, body);
    this.score.hidden = false;
  }
}

function rounded(number) {
  return number === undefined ? "" : Number(number.toPrecision(6));
}

function rowOf(tag, texts) {
  const row = make("tr");
  row.append(...texts.map((text) => {
    const cell = make(tag, "", String(text));
    if (tag === "th") cell.scope = "col";
    return cell;
  }));
  return row;
}
