// Ask the local server while somebody types: ε at once, then its interval and the pictures when the hand rests.
"use strict";

const form = document.getElementById("question");
const by = (id) => document.getElementById(id);
const FIELDS = ["noise_multiplier", "epsilon", "batch_size", "dataset_size", "epochs", "delta"];
const OF_POISSON = ["max_batch", "records_per_user"]; // may be left empty
const STEPS = 400; // of a slider: each changes one of three digits
const REST_MS = 130; // without a change, before slower questions are asked
const said = {}; // texts that buttons copy
let serial = 0; // of the newest question: older answers are not shown

// The question, as it stands in the form -------------------------------------------------------------------------

function question() {
  const data = new FormData(form), asked = data.get("ask"), sampling = data.get("sampling");
  const q = { ask: asked, sampling };
  for (const name of FIELDS) {
    if (name !== (asked === "noise" ? "noise_multiplier" : "epsilon")) q[name] = String(data.get(name)).trim();
  }
  if (sampling === "random_allocation") q.bins = data.get("bins");
  for (const name of sampling === "poisson" ? OF_POISSON : []) {
    if (String(data.get(name)).trim()) q[name] = String(data.get(name)).trim();
  }
  if (sampling === "opacus" && data.get("drop_last")) q.drop_last = true;
  return q;
}

function link(q) { return `${location.origin}/#${new URLSearchParams(q)}`; }

function restore() {
  for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
    const field = form.elements[name];
    if (!field) continue;
    if (field instanceof RadioNodeList) {
      for (const radio of field) radio.checked = radio.value === value;
    } else if (field.type === "checkbox") field.checked = value === "true";
    else field.value = value;
  }
  if (!new FormData(form).get("sampling")) form.elements.sampling.value = "poisson";
  if (!new FormData(form).get("ask")) form.elements.ask.value = "epsilon";
}

// Sliders go by ratios: as far from 1 to 2 as from 100 to 200 --------------------------------------------------------

const sliders = [...document.querySelectorAll("[data-slider]")];
for (const slider of sliders) {
  const from = Math.log(slider.dataset.from), to = Math.log(slider.dataset.to), field = by(slider.dataset.slider);
  slider.min = 0; slider.max = STEPS; slider.step = 1;
  slider.addEventListener("input", () => {
    const value = Math.exp(from + (to - from) * slider.value / STEPS);
    field.value = slider.dataset.whole === undefined ? String(Number(value.toPrecision(3))) : String(Math.round(Number(value.toPrecision(3))));
    slider.setAttribute("aria-valuetext", field.value);
    changed();
  });
  slider.follow = () => {
    const value = Number(field.value.replace(/k$/i, "e3").replace(/m$/i, "e6"));
    if (value > 0) slider.value = Math.round(STEPS * (Math.log(value) - from) / (to - from));
    slider.setAttribute("aria-valuetext", field.value);
  };
}

// Asking ------------------------------------------------------------------------------------------------------------

async function ask(q) {
  let response;
  try {
    response = await fetch("answer", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(q) });
  } catch {
    return { error: { kind: "Gone", message: "the server does not answer: was `cumulant page` ended?", field: null } };
  }
  return response.json();
}

let waiting = false, again = false, resting = 0;

// One question of ε is under way at a time: while a slider moves, the newest value is asked as soon as the last is answered.
async function changed() {
  show_choices();
  sliders.forEach((slider) => { if (document.activeElement !== slider) slider.follow(); });
  serial += 1;
  clearTimeout(resting);
  if (waiting) { again = true; return; }
  waiting = true;
  do {
    again = false;
    by("number").classList.add("old");
    const mine = serial, q = question(), answer = await ask(q);
    if (mine !== serial) continue;
    history.replaceState(null, "", `#${new URLSearchParams(q)}`);
    show(answer, q);
    if (!answer.error) resting = setTimeout(() => slower(mine, q, answer), REST_MS);
  } while (again);
  waiting = false;
}

// Slower questions go one after the other, so that a process is free for the next ε; an outdated one is not asked.
let last = Promise.resolve();

function slower(mine, q, answer) {
  const noise = answer.noise_multiplier === undefined ? q.noise_multiplier : String(answer.noise_multiplier);
  const known = { ...q, noise_multiplier: noise };
  delete known.epsilon;
  const steps = [
    ["curve", (found) => picture("chart-curve", found, drawLines)],
    ["interval", (found) => found.error || interval(found)],
    ["tradeoff", (found) => picture("chart-tradeoff", found, drawLines)],
  ];
  for (const [what, use] of steps) later(mine, { ...known, ask: what }, use);
  const bars = [];
  for (const other of loaders(q)) {
    const here = other.sampling === q.sampling && (other.bins || "") === (q.bins || "");
    const asked = { ...known, bins: undefined, drop_last: undefined, max_batch: undefined, records_per_user: undefined, ...(here ? q : other), noise_multiplier: noise, epsilon: undefined, ask: "loader" };
    later(mine, asked, (found) => {
      const how = other.bins ? `, ${other.bins}` : "";
      bars.push(found.error ? { label: other.sampling, text: "none", upper: null, reason: found.error.message }
        : { label: found.label + how, text: found.text, upper: found.epsilon, lower: found.lower, here });
      drawBars(by("chart-loaders"), bars);
    });
  }
}

function later(mine, q, use) {
  last = last.then(async () => {
    if (mine !== serial) return;
    const found = await ask(q);
    if (mine === serial) use(found);
  });
}

function loaders(q) {
  const names = [...form.elements.sampling].map((radio) => radio.value);
  const several = Number(q.epochs) > 1;
  return names.flatMap((sampling) => (sampling === "random_allocation" && several ? [{ sampling, bins: "fresh" }, { sampling, bins: "kept" }] : [{ sampling }]));
}

function picture(id, found, draw) {
  if (found.error) message(by(id), found.error.message);
  else draw(by(id), found.chart);
}

// Showing -----------------------------------------------------------------------------------------------------------

function show_choices() {
  const data = new FormData(form), sampling = data.get("sampling");
  by("bins").hidden = sampling !== "random_allocation";
  by("drop-last").hidden = sampling !== "opacus";
  by("of-poisson").hidden = sampling !== "poisson";
  document.querySelectorAll("[data-for]").forEach((field) => { field.hidden = field.dataset.for !== data.get("ask"); });
}

function show(answer, q) {
  const error = answer.error, number = by("number"), general = by("wrong");
  for (const name of [...FIELDS, ...OF_POISSON]) {
    const mine = error && error.field === name;
    by(`e-${name}`).textContent = mine ? error.message : "";
    by(name).setAttribute("aria-invalid", mine ? "true" : "false");
  }
  general.hidden = !error || [...FIELDS, ...OF_POISSON].includes(error.field);
  general.textContent = general.hidden ? "" : error.message;
  number.classList.toggle("old", Boolean(error));
  if (error) return;
  const noise = answer.noise_multiplier !== undefined;
  number.querySelector(".symbol").textContent = noise ? "σ =" : answer.exact ? "ε =" : "ε ≤";
  number.querySelector(".value").textContent = noise ? answer.noise_text : answer.text;
  rows(by("proof"), answer.proof);
  rows(by("statement"), answer.statement);
  said.statement = answer.statement.map(([label, text]) => `${label}: ${text}`).join("\n");
  for (const name of ["python", "command"]) { said[name] = answer[name]; by(name).textContent = answer[name]; }
  said.link = link(q);
  by("version").textContent = `cumulant ${answer.version}`;
}

function rows(list, pairs) {
  list.replaceChildren(...pairs.flatMap(([label, text]) => [html("dt", {}, label), html("dd", {}, text)]));
}

function interval(found) {
  const list = by("proof");
  list.querySelectorAll(".interval").forEach((old) => old.remove());
  list.append(html("dt", { class: "interval" }, "interval"), html("dd", { class: "interval" }, found.text));
}

// Planning, copying -------------------------------------------------------------------------------------------------

by("plan").addEventListener("click", async () => {
  const box = by("planned"), q = question();
  box.textContent = "planning …";
  by("plan").disabled = true;
  const found = await ask({ ...q, ask: "plan", noise_multiplier: by("noise_multiplier").value.trim(), epsilon: by("budget").value.trim() });
  by("plan").disabled = false;
  if (found.error) { box.replaceChildren(html("p", { class: "wrong" }, found.error.message)); return; }
  const list = html("dl");
  rows(list, found.plan);
  box.replaceChildren(list);
});

for (const button of document.querySelectorAll(".copy")) {
  button.addEventListener("click", async () => {
    const before = button.textContent;
    try {
      await navigator.clipboard.writeText(said[button.dataset.copy] || "");
      button.textContent = "Copied";
    } catch { button.textContent = "Select and copy by hand"; }
    setTimeout(() => { button.textContent = before; }, 1400);
  });
}

// A ledger, read only -----------------------------------------------------------------------------------------------

async function account(name) {
  const found = await ask(name ? { ask: "account", account: name } : { ask: "accounts" });
  by("e-account").textContent = found.error ? found.error.message : "";
  if (found.error) { by("account").hidden = found.error.kind === "NoLedger"; return; }
  by("account").hidden = false;
  if (!name) {
    by("accounts").replaceChildren(...found.accounts.map((one) => html("option", { value: one }, one)));
    if (found.accounts.length) await account(found.accounts[0]);
    else by("e-account").textContent = "this ledger has no account yet";
    return;
  }
  rows(by("account-status"), found.status.slice(1));
  drawLines(by("chart-account"), found.chart);
  by("account-spenders").replaceChildren(...found.tables.map(({ title, sentences, rows: lines }) => {
    const part = html("section");
    part.append(html("h2", {}, title), ...sentences.map((sentence) => html("p", { class: "hint" }, sentence)));
    if (lines.length) part.append(tableOf(title, lines[0], lines.slice(1)));
    return part;
  }));
}

by("accounts").addEventListener("change", (event) => account(event.target.value));
form.addEventListener("input", (event) => { if (!event.target.dataset.slider) changed(); });
form.addEventListener("submit", (event) => event.preventDefault());
window.addEventListener("hashchange", () => { restore(); changed(); });
restore();
changed();
account();
