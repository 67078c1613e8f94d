/* The page: draws the sample, labels a node of the graph, and labels a new one. Text of the run is
   set by textContent alone. */

const ANOTHER = "\u0000"; // the choice of a text that has no feature of its own
const SUGGESTIONS = 20;
const BARS = 8;
const byId = (id) => document.getElementById(id);
const percent = (share) => `${(100 * share).toFixed(1)} %`;
const number = (value) => value.toLocaleString("en");

function element(tag, text, properties) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  return Object.assign(made, properties);
}

const state = { net: null, labels: [], numbers: new Map(), neighbours: [], selected: -1, copied: null, added: null };

// what is known of a class: its colour and its form

const colourOf = (label) => `--c${(label % META.colours) + 1}`;
const formOf = (label) => Math.floor(label / META.colours) % 3;

function outline(form, x, y, r) {
  if (form === 1) return `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}z`;
  if (form === 2) return `M${x} ${y - 1.2 * r}L${x + 1.2 * r} ${y + r}H${x - 1.2 * r}z`;
  return `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`;
}

function showLegend() {
  const used = [...new Set(META.drawn.map((node) => state.labels[node]))].sort((a, b) => a - b);
  for (const label of used) {
    const item = element("li");
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    svg.setAttribute("width", "14");
    svg.setAttribute("height", "14");
    svg.setAttribute("aria-hidden", "true");
    path.setAttribute("d", outline(formOf(label), 7, 7, 5));
    path.style.fill = `var(${colourOf(label)})`;
    svg.append(path);
    item.append(svg, element("span", META.class_names[label]));
    byId("legend").append(item);
  }
}

// the drawing

function placed(at) {
  const canvas = byId("canvas"), [x, y] = META.places[at], edge = 18;
  return [edge + x * (canvas.clientWidth - 2 * edge), edge + y * (canvas.clientHeight - 2 * edge)];
}

function draw() {
  const canvas = byId("canvas"), ratio = window.devicePixelRatio || 1;
  canvas.width = canvas.clientWidth * ratio;
  canvas.height = canvas.clientHeight * ratio;
  const pen = canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  pen.scale(ratio, ratio);
  drawEdges(pen, colour("--quiet"));
  const radius = META.drawn.length > 120 ? 4 : 6;
  META.drawn.forEach((node, at) => {
    const [x, y] = placed(at), label = state.labels[node];
    pen.fillStyle = colour(colourOf(label));
    pen.fill(new Path2D(outline(formOf(label), x, y, radius)));
  });
  ring(pen, state.selected, colour("--ink"), radius + 4);
  for (const node of state.neighbours) ring(pen, node, colour("--c2"), radius + 3);
  if (state.added !== null) drawAdded(pen, colour, radius + 2);
}

function drawEdges(pen, colour) {
  const graph = state.net.graph, at = new Map(META.drawn.map((node, k) => [node, k]));
  pen.strokeStyle = colour;
  pen.globalAlpha = 0.35;
  pen.beginPath();
  for (const [node, k] of at)
    for (let e = graph.indptr[node]; e < graph.indptr[node + 1]; e++)
      if (at.has(graph.sender[e])) {
        pen.moveTo(...placed(k));
        pen.lineTo(...placed(at.get(graph.sender[e])));
      }
  pen.stroke();
  pen.globalAlpha = 1;
}

function ring(pen, node, colour, radius) {
  const at = META.drawn.indexOf(node);
  if (at < 0) return;
  pen.strokeStyle = colour;
  pen.lineWidth = 2;
  pen.stroke(new Path2D(outline(0, ...placed(at), radius)));
}

function drawAdded(pen, colour, radius) {
  const ends = state.neighbours.map((node) => META.drawn.indexOf(node)).filter((at) => at >= 0);
  const points = ends.map(placed), canvas = byId("canvas");
  const mean = (axis) => points.reduce((sum, own) => sum + own[axis], 0) / points.length;
  const middle = points.length ? [mean(0) + 14, mean(1) - 14] : [24, canvas.clientHeight - 24];
  const here = [Math.max(16, Math.min(canvas.clientWidth - 50, middle[0])), Math.max(16, middle[1])];
  pen.strokeStyle = pen.fillStyle = colour(colourOf(state.added));
  pen.lineWidth = 2;
  for (const point of points) pen.stroke(new Path2D(`M${here.join(" ")}L${point.join(" ")}`));
  pen.fill(new Path2D(outline(formOf(state.added), ...here, radius)));
  pen.fillStyle = colour("--ink");
  pen.font = "600 13px system-ui, sans-serif";
  pen.fillText("new", here[0] + radius + 4, here[1] + 4);
}

function nodeAt(event) {
  const box = byId("canvas").getBoundingClientRect();
  const x = event.clientX - box.left, y = event.clientY - box.top;
  let found = -1, least = 18;
  META.drawn.forEach((node, at) => {
    const far = Math.hypot(placed(at)[0] - x, placed(at)[1] - y);
    if (far < least) [found, least] = [node, far];
  });
  return found;
}

// answers

function bars(scores) {
  const shares = Array.from(state.net.probabilities(scores));
  const order = shares.map((_, label) => label).sort((a, b) => shares[b] - shares[a] || a - b);
  const made = element("div", undefined, { className: "bars" });
  for (const label of order.slice(0, BARS)) {
    const bar = element("span", undefined, { className: "bar" });
    bar.style.width = `${100 * shares[label]}%`;
    bar.style.background = `var(${colourOf(label)})`;
    made.append(
      element("span", META.class_names[label], { className: "name" }), bar,
      element("span", percent(shares[label]), { className: "value" }));
  }
  const rest = order.slice(BARS).reduce((sum, label) => sum + shares[label], 0);
  return order.length > BARS ? [made, element("p", `${order.length - BARS} more: ${percent(rest)}`, { className: "hint" })] : [made];
}

function answer(scores) {
  const label = best(scores);
  const line = element("p", "Label: ", { className: "answer" });
  line.append(element("strong", META.class_names[label]));
  line.dataset.label = META.class_names[label];
  return [line, ...bars(scores)];
}

function showNode(node) {
  state.selected = node;
  const scores = state.net.scoresOf(node), out = byId("known-result"), graph = state.net.graph;
  const known = META.known ? META.known[node] : -1;
  const count = graph.indptr[node + 1] - graph.indptr[node];
  const given = known < 0 ? "no label was given" : `given label: ${META.class_names[known]}`;
  const add = element("button", "Take as neighbour of the new node", { type: "button" });
  add.addEventListener("click", () => addNeighbour(node));
  out.replaceChildren(
    element("h3", `Node ${META.ids[node]}`), ...answer(scores),
    element("p", `${number(count)} kept edges lead to it; ${given}.`, { className: "hint" }), add);
  draw();
}

function showError(out, error) {
  out.replaceChildren(element("p", error.message, { className: "wrong" }));
}

// ids

function nodeOf(text) {
  const found = state.numbers.get(text.trim());
  if (found === undefined) throw new Error(`There is no node "${text.trim()}" in this page.`);
  return found;
}

function suggest(text) {
  const begun = text.trim();
  const found = begun ? META.ids.filter((id) => id.startsWith(begun)) : META.ids;
  byId("ids").replaceChildren(...found.slice(0, SUGGESTIONS).map((id) => element("option", undefined, { value: id })));
}

function addNeighbour(node) {
  if (!state.neighbours.includes(node)) state.neighbours.push(node);
  showNeighbours();
}

function showNeighbours() {
  state.added = null;
  byId("neighbours").replaceChildren(...state.neighbours.map((node) => {
    const item = element("li", META.ids[node]);
    const gone = element("button", "×", { type: "button", ariaLabel: `Remove neighbour ${META.ids[node]}` });
    gone.addEventListener("click", () => {
      state.neighbours = state.neighbours.filter((own) => own !== node);
      showNeighbours();
    });
    item.append(gone);
    return item;
  }));
  draw();
}

// features: a field for each column that the net reads, or pairs of number and value

function readColumns() {
  const read = META.index ? new Set(META.index) : null, own = META.preparation, found = new Map();
  let at = 0;
  const take = (name) => {
    const here = at++;
    if (!read || read.has(here)) found.set(name, true);
  };
  own.numbers.forEach((column) => take(column.name));
  own.numbers.filter((column) => column.missing).forEach((column) => take(column.name));
  for (const column of own.categories)
    for (let k = 0; k < column.names.length + (column.other ? 1 : 0); k++) take(column.name);
  return found;
}

function choice(options) {
  const made = element("select");
  for (const [value, text] of options) made.append(element("option", text, { value }));
  return made;
}

function fieldOf(column) {
  if (!column.kind) {
    const options = column.names.map((name) => [name, name || "missing"]);
    return choice([...options, [ANOTHER, "another"]]);
  }
  if (column.kind === "boolean") return choice([["", "missing"], ["true", "true"], ["false", "false"]]);
  if (column.kind === "date") return element("input", undefined, { type: "date" });
  const [low, high] = [column.low, column.high].map((value) => Number(value.toPrecision(4)));
  const range = `${low} to ${high}`;
  return element("input", undefined, { type: "text", inputMode: "decimal", placeholder: range });
}

function makeFields() {
  const out = byId("features");
  if (!META.preparation) return makePairs(out);
  const read = readColumns(), grid = element("div", undefined, { className: "columns" });
  [...META.preparation.numbers, ...META.preparation.categories].forEach((column, at) => {
    if (!read.has(column.name)) return;
    const field = Object.assign(fieldOf(column), { id: `column-${at}` });
    field.dataset.column = column.name;
    const box = element("div");
    box.append(element("label", column.name, { htmlFor: field.id }), field);
    grid.append(box);
  });
  out.append(grid, element("p", "A number that is left empty counts as missing.", { className: "hint" }));
}

function makePairs(out) {
  const last = META.features - 1, area = element("textarea", undefined, { id: "pairs", rows: 4, placeholder: "0: 1.5, 7: 1" });
  const how = META.normalize ? " A row is divided by the sum of its values." : "";
  area.addEventListener("input", () => { state.copied = null; });
  out.append(
    element("label", `Feature number (0 to ${number(last)}) and value; all others are 0`, { htmlFor: "pairs" }), area,
    element("p", `The run has no names of features.${how}`, { className: "hint" }));
}

function cells() {
  const found = {};
  for (const field of document.querySelectorAll("[data-column]")) found[field.dataset.column] = field.value;
  return found;
}

function pairs() {
  const row = new Float32Array(META.features);
  for (const part of byId("pairs").value.split(/[,;\n]+/).filter((own) => own.trim())) {
    const match = /^\s*(\d+)\s*[:=\s]\s*(\S+)\s*$/.exec(part);
    const value = match ? Number(match[2]) : NaN;
    if (!match || !Number.isFinite(value)) throw new Error(`"${part.trim()}" is not like 7: 1.5`);
    if (Number(match[1]) >= META.features) throw new Error(`There is no feature ${match[1]}; the last is ${META.features - 1}.`);
    row[Number(match[1])] = value;
  }
  return row;
}

function newRow() {
  if (META.preparation) return state.net.prepare(state.net.row(cells()));
  return state.copied || state.net.prepare(pairs());
}

/* x [read] of a node of the graph. */
function rowOfNode(node) {
  const graph = state.net.graph, read = state.net.read;
  if (graph.x) return graph.x.slice(node * read, (node + 1) * read);
  const row = new Float32Array(read);
  for (let e = graph.x_indptr[node]; e < graph.x_indptr[node + 1]; e++) row[graph.x_index[e]] = graph.x_value[e];
  return row;
}

function copyFeatures(node) {
  const x = rowOfNode(node), index = META.index || Array.from(x, (_, at) => at);
  if (!META.preparation) {
    const shown = Array.from(x, (value, at) => [index[at], value]).filter(([, value]) => value !== 0);
    byId("pairs").value = shown.map(([at, value]) => `${at}: ${Number(value.toPrecision(6))}`).join(", ");
    state.copied = x; // to the last bit, until edited
    return;
  }
  const cell = cellsOf(META.preparation, new Map(index.map((feature, at) => [feature, x[at]])));
  for (const field of document.querySelectorAll("[data-column]"))
    if (cell.has(field.dataset.column)) field.value = cell.get(field.dataset.column);
}

/* The cells that a row was made from, as far as the features that are read tell. */
function cellsOf(preparation, value) {
  const found = new Map();
  let at = preparation.numbers.length;
  preparation.numbers.forEach((own, k) => {
    const missing = own.missing ? value.get(at++) : 0;
    if (value.has(k)) found.set(own.name, missing ? "" : cellOf(own, value.get(k) * own.scale + own.mean));
  });
  for (const own of preparation.categories) {
    const names = [...own.names, ...(own.other ? [ANOTHER] : [])];
    const one = names.findIndex((_, k) => value.get(at + k) === 1);
    const unread = names.findIndex((_, k) => !value.has(at + k));
    found.set(own.name, one >= 0 ? names[one] : unread >= 0 ? names[unread] : ANOTHER);
    at += names.length;
  }
  return found;
}

function cellOf(own, value) {
  if (own.kind === "boolean") return value > 0.5 ? "true" : "false";
  if (own.kind === "date") return new Date(Math.round(value) * 864e5).toISOString().slice(0, 10);
  return String(Number(value.toPrecision(7)));
}

// events

function attempt(out, action) {
  try {
    action();
  } catch (error) {
    showError(byId(out), error);
  }
}

function predictNew() {
  const scores = state.net.scoresOfNew(newRow(), state.neighbours);
  state.added = best(scores);
  const alone = state.neighbours.length ? [] : [element("p", "It has no neighbours: its features alone decide.", { className: "hint" })];
  byId("new-result").replaceChildren(element("h3", "The new node"), ...answer(scores), ...alone);
  draw();
}

function listen() {
  byId("known").addEventListener("submit", (event) => {
    event.preventDefault();
    attempt("known-result", () => showNode(nodeOf(byId("node").value)));
  });
  byId("new").addEventListener("submit", (event) => {
    event.preventDefault();
    attempt("new-result", predictNew);
  });
  byId("add").addEventListener("click", () => attempt("new-result", () => {
    addNeighbour(nodeOf(byId("neighbour").value));
    byId("neighbour").value = "";
  }));
  byId("copy").addEventListener("click", () => attempt("new-result", () => copyFeatures(nodeOf(byId("source").value))));
  byId("canvas").addEventListener("click", (event) => {
    const node = nodeAt(event);
    if (node >= 0) byId("node").value = META.ids[node], showNode(node);
  });
  for (const id of ["node", "neighbour", "source"]) {
    byId(id).addEventListener("input", (event) => suggest(event.target.value));
    byId(id).addEventListener("focus", (event) => suggest(event.target.value));
  }
  window.addEventListener("resize", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
}

function describe() {
  const held = META.ids.length, all = held === META.nodes;
  byId("title").textContent = `${META.name}: a net that runs in this page`;
  byId("about").textContent =
    `${META.architecture.join(" ‖ ")}, ${number(META.weights)} weights, tells ${META.class_names.length} labels apart. ` +
    "It is computed here, in WebAssembly: nothing is sent anywhere.";
  const part = all ? `All ${number(held)} nodes are in this page` :
    `${number(held)} of ${number(META.nodes)} nodes are in this page (${number(META.differ)} of them have another label than in the whole graph)`;
  byId("graph-note").textContent =
    `${part}; ${number(META.drawn.length)} are drawn, coloured by predicted label. Choose one in the picture or by its id.`;
}

async function start() {
  try {
    describe();
    state.net = await load();
    META.ids.forEach((id, node) => state.numbers.set(id, node));
    const scores = state.net.scores(), classes = state.net.classes;
    state.labels = META.ids.map((_, node) => best(scores.subarray(node * classes, (node + 1) * classes)));
    makeFields();
    showLegend();
    listen();
    byId("node").value = byId("source").value = META.ids[META.drawn[0]];
    showNode(META.drawn[0]);
    document.body.dataset.ready = "yes";
  } catch (error) {
    byId("failed").hidden = false;
    byId("failed").textContent = `This browser cannot run the net: ${error.message}`;
  }
}

start();
