// How to solve: every control with one line that says what it does.

import { make } from "./shapes.js";

const BLOCKS = [
  ["", "as the model likes it", "The rule that is stored with the model."],
  ["random", "random", "Each free variable is in the block with the same probability."],
  ["margin", "margin", "The variables that the sampler is least sure of."],
  ["critical", "critical", "Variables of violated constraints first."],
  ["related", "related", "All variables of constraints that are drawn at random."],
  ["all", "all", "Everything at once: diffusion without blocks (DiT)."],
];
const FINISHERS = [
  ["auto", "auto", "A search that fits the problem follows the sampler, if it is not done."],
  ["none", "none", "The sampler alone."],
  ["exact", "exact", "CP-SAT follows; only it can prove something."],
  ["annealing", "annealing", "Simulated annealing follows: cuts, weighted sets."],
  ["swaps", "swaps", "Swaps of vertices follow: independent sets."],
  ["tabu", "tabu", "Tabu search follows: colourings."],
  ["descent", "descent", "Greedy moves follow until none helps."],
];
const COMPARISONS = [
  ["", "nothing", "One run."],
  ["margin", "margin blocks", "The same with the least certain variables as the block."],
  ["random", "random blocks", "The same with random blocks."],
  ["all", "all at once", "The same weights, but every variable is drawn in every step."],
  ["dit", "DiT", "A network that was trained to draw everything at once."],
  ["untrained", "untrained", "The same network before training."],
  ["seed", "another seed", "The same with other random numbers."],
];

export class SettingsPanel {
  constructor(element) {
    this.element = element;
    this.models = [];
    this.inputs = {};
    this.#choice("block", "Block rule", BLOCKS);
    this.#pair();
    this.#number("chains", "Chains", 1, 1, 16, "Independent runs side by side; the picture shows the first.");
    this.#number("steps", "Steps", 200, 1, 5000, "The sampler's budget. It ends earlier when a puzzle is solved.");
    this.#choice("finish", "Finisher", FINISHERS);
    this.#choice("model", "Model", [["", "that of the problem", "The bundled network for this kind of problem."]]);
    this.#number("seed", "Seed", 0, 0, 2 ** 31, "The same seed and settings give the same run.");
    this.#choice("vs", "Side by side with", COMPARISONS);
  }

  #field(name, label, input, why) {
    const box = make("div", "control");
    const row = make("label", "row", label);
    row.append(input);
    const words = make("p", "why", why);
    words.id = `why-${name}`;
    input.id = `set-${name}`;
    input.setAttribute("aria-describedby", words.id);
    box.append(row, words);
    this.element.append(box);
    this.inputs[name] = input;
    return words;
  }

  #choice(name, label, choices) {
    const select = make("select");
    const words = this.#field(name, label, select, choices[0][2]);
    this.#fill(select, choices);
    select.addEventListener("change", () => {
      words.textContent = select.selectedOptions[0]?.dataset.why ?? "";
    });
  }

  #fill(select, choices) {
    select.replaceChildren(...choices.map(([value, text, why]) => {
      const option = make("option", "", text);
      option.value = value;
      option.dataset.why = why;
      return option;
    }));
  }

  #number(name, label, value, min, max, why) {
    const input = make("input");
    Object.assign(input, { type: "number", min, max, value });
    this.#field(name, label, input, why);
  }

  #pair() {
    const box = make("div", "control");
    const row = make("div", "row", "Share, %");
    const pair = make("span", "pair");
    for (const [name, label] of [["from", "Largest share of the variables in a block, per cent"], ["to", "Smallest share"]]) {
      const input = make("input");
      Object.assign(input, { type: "number", min: 1, max: 100, id: `set-${name}`, placeholder: name });
      input.setAttribute("aria-label", label);
      input.setAttribute("aria-describedby", "why-share");
      pair.append(input);
      this.inputs[name] = input;
    }
    const words = make("p", "why", "How much of the problem a block holds, at the start and at the end of a cycle.");
    words.id = "why-share";
    row.append(pair);
    box.append(row, words);
    this.element.append(box);
  }

  setModels(models) {
    this.models = models;
    const rows = models.map(({ name, summary }) => [name, name, summary]);
    this.#fill(this.inputs.model, [["", "that of the problem", "The bundled network for this kind of problem."], ...rows]);
  }

  // What the server takes at most.
  setLimits({ chains, steps }) {
    this.inputs.chains.max = chains;
    this.inputs.steps.max = steps;
  }

  // What the controls say, as texts.
  values() {
    return Object.fromEntries(Object.entries(this.inputs).map(([name, input]) => [name, input.value]));
  }

  set(values) {
    for (const [name, input] of Object.entries(this.inputs)) {
      if (values[name] === undefined) continue;
      input.value = values[name];
      input.dispatchEvent(new Event("change"));
    }
  }

  // The part of a request that says how to solve; `changed` is laid over what the controls say.
  request(changed = {}) {
    const { block, from, to, chains, steps, finish, model, seed } = { ...this.values(), ...changed };
    const options = { finish, chains: Number(chains || 1), steps: Number(steps || 200), seed: Number(seed || 0) };
    if (block) options.block = block;
    const asked = { options };
    if (model) asked.model = model;
    if (from || to) {
      const largest = Number(from || to) / 100;
      asked.share = [largest, Math.min(Number(to || from) / 100, largest)];
    }
    return asked;
  }

  // The runs to make: one, or two side by side, each with a title.
  runs(problem) {
    const { vs, seed, model } = this.values();
    const title = (changed) => changed.title ?? `${changed.model || model || "the problem's model"}, ${changed.block || "its own"} blocks`;
    if (!vs) return [{ title: "", request: this.request() }];
    const changes = {
      margin: { block: "margin" }, random: { block: "random" }, all: { block: "all" },
      dit: { block: "all", model: `${problem}-dit`, title: "DiT: trained for everything at once" },
      untrained: { model: "untrained", title: "untrained network" },
      seed: { seed: String(Number(seed) + 1), title: `seed ${Number(seed) + 1}` },
    }[vs];
    const first = vs === "seed" ? { title: `seed ${seed}` } : { block: this.values().block };
    return [first, changes].map((changed) => ({ title: title(changed), request: this.request(changed) }));
  }
}
