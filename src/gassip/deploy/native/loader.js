/* A net of gassip in WebAssembly: no dependency, for browsers and node.

   const net = await GassipNet.open(moduleBytes, netBytes, meta);
   net.setGraph(readTensors(graphBytes));
   net.scores();                                    all nodes, Float32Array [N * C]
   net.scoresOf(17);                                one node, [C]
   net.scoresOfNew(net.prepare(row), [3, 17]);      a node that is not in the graph, [C]
   net.probabilities(scores);  net.label(scores);   [C]; the name of the best class

   A row has all features, as the search had them. For a run of named columns,
   net.row({age: 31, town: "Ulm"}) makes it: numbers, true or false, "YYYY-MM-DD", texts; what is
   left out, null or "" is missing. The graph's edges are sorted by receiver, each direction an
   entry of its own (indptr, sender, weight); features are dense (x) or sparse (x_indptr, x_index,
   x_value), the ones that the net reads. */

const STATUS = {
  "-1": "the memory is too small",
  "-2": "there is no such node",
  "-3": "a neighbour is given twice",
  "-4": "the net's bytes are damaged",
  "-5": "no net is open",
};
const GRAPH_FIELDS = [
  "indptr", "sender", "weight", "degree", "x", "x_indptr", "x_index", "x_value", "labels",
];
const PAGE = 65536;
const KINDS = { F32: Float32Array, I32: Int32Array, I64: BigInt64Array, U8: Uint8Array };

class GassipNet {
  static async open(moduleBytes, netBytes, meta) {
    const made = await WebAssembly.instantiate(moduleBytes, {});
    return new GassipNet(made.instance.exports, netBytes, meta);
  }

  constructor(wasm, netBytes, meta) {
    this.wasm = wasm;
    this.meta = meta;
    this.free = wasm.__heap_base.value;
    this._checked(wasm.open_net(this._put(new Uint8Array(netBytes)), netBytes.byteLength));
    this.kept = this.free; // what is above goes with the graph
    this.classes = wasm.num_classes();
    this.features = wasm.num_features();
    this.read = wasm.num_read();
    if (meta && meta.class_names.length !== this.classes)
      throw new Error(`${meta.class_names.length} class names for ${this.classes} classes`);
  }

  /* Arrays by name, Int32Array and Float32Array; the module keeps a copy. */
  setGraph(graph) {
    checkGraph(graph, this.read, this.classes);
    this.graph = graph;
    this.nodes = graph.indptr.length - 1;
    this.free = this.kept;
    const at = GRAPH_FIELDS.map((name) => (graph[name] ? this._put(graph[name]) : 0));
    this.structure = this._put(Int32Array.of(this.nodes, ...at));
  }

  scores() {
    return this._call(this.nodes * this.classes, 0, (work, bytes, out) =>
      this.wasm.scores(this.structure, work, bytes, out));
  }

  scoresOf(node) {
    return this._call(this.classes, 0, (work, bytes, out) =>
      this.wasm.scores_node(this.structure, node, work, bytes, out));
  }

  /* x [read]; neighbours by number, each once; their weights, or all 1. */
  scoresOfNew(x, neighbours, weights) {
    if (x.length !== this.read) throw new Error(`x has ${x.length} features, not ${this.read}`);
    if (weights && weights.length !== neighbours.length)
      throw new Error(`${weights.length} weights for ${neighbours.length} neighbours`);
    return this._call(this.classes, neighbours.length, (work, bytes, out) => {
      const row = this._put(Float32Array.from(x));
      const ends = this._put(Int32Array.from(neighbours));
      const weight = weights ? this._put(Float32Array.from(weights)) : 0;
      return this.wasm.scores_new_node(
        this.structure, row, neighbours.length, ends, weight, work, bytes, out);
    });
  }

  /* The features that are read, of a row with all of them. */
  prepare(row) {
    if (row.length !== this.features)
      throw new Error(`the row has ${row.length} features, not ${this.features}`);
    const before = this.free;
    const given = this._put(Float32Array.from(row));
    const out = this._take(4 * this.read);
    this.wasm.prepare(given, out);
    this.free = before;
    return new Float32Array(this.wasm.memory.buffer, out, this.read).slice();
  }

  row(cells) {
    return rowOf(this.meta.preparation, cells);
  }

  probabilities(scores) {
    const before = this.free;
    const at = this._put(Float32Array.from(scores));
    this.wasm.probabilities(at);
    this.free = before;
    return new Float32Array(this.wasm.memory.buffer, at, this.classes).slice();
  }

  label(scores) {
    return this.meta.class_names[best(scores)];
  }

  _call(cells, neighbours, entry) {
    if (!this.structure) throw new Error("setGraph comes first");
    const before = this.free;
    try {
      const out = this._take(4 * cells);
      const bytes = this.wasm.work_bytes(this.nodes, this.graph.sender.length, neighbours) >>> 0;
      const work = this._take(bytes);
      this._checked(entry(work, bytes, out));
      return new Float32Array(this.wasm.memory.buffer, out, cells).slice();
    } finally {
      this.free = before;
    }
  }

  _take(bytes) {
    const at = (this.free + 15) & ~15;
    const lacking = at + bytes - this.wasm.memory.buffer.byteLength;
    if (lacking > 0) this.wasm.memory.grow(Math.ceil(lacking / PAGE));
    this.free = at + bytes;
    return at;
  }

  _put(array) {
    const at = this._take(array.byteLength);
    const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
    new Uint8Array(this.wasm.memory.buffer).set(bytes, at);
    return at;
  }

  _checked(status) {
    if (status) throw new Error(STATUS[status] || `status ${status}`);
  }
}

function best(scores) {
  let at = 0;
  for (let c = 1; c < scores.length; c++) if (scores[c] > scores[at]) at = c;
  return at;
}

/* The module trusts the arrays, so they are looked at here. */
function checkGraph(graph, read, classes) {
  const nodes = graph.indptr.length - 1;
  const rows = (indptr, entries, limit, what) => {
    if (indptr.length !== nodes + 1 || indptr[0] !== 0 || indptr[nodes] !== entries.length)
      throw new Error(`${what} do not fit ${nodes} nodes`);
    for (let i = 0; i < nodes; i++)
      if (indptr[i] > indptr[i + 1]) throw new Error(`${what} are not sorted by row`);
    for (const entry of entries)
      if (!(entry >= 0 && entry < limit)) throw new Error(`${what} refer to ${entry} of ${limit}`);
  };
  rows(graph.indptr, graph.sender, nodes, "edges");
  if (graph.x ? graph.x.length !== nodes * read : !graph.x_indptr)
    throw new Error(`x does not have ${nodes} rows of ${read} features`);
  if (!graph.x) rows(graph.x_indptr, graph.x_index, read, "features");
  const lengths = [["weight", graph.sender.length], ["degree", nodes], ["labels", nodes]];
  for (const [name, length] of lengths)
    if (graph[name] && graph[name].length !== length)
      throw new Error(`${name} has ${graph[name].length} entries, not ${length}`);
  if (graph.labels && graph.labels.some((label) => label >= classes))
    throw new Error(`a label is not among the ${classes} classes`);
}

/* A safetensors file: u64 length, JSON header, raw bytes. */
function readTensors(buffer) {
  const bytes = new Uint8Array(buffer);
  const start = 8 + Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, start)));
  const found = {};
  for (const [name, entry] of Object.entries(header)) {
    const [first, last] = entry.data_offsets;
    found[name] = new KINDS[entry.dtype](bytes.slice(start + first, start + last).buffer);
  }
  return found;
}

/* All features from named cells, as gassip.graph.preparation makes them. */
function rowOf(preparation, cells) {
  const known = new Set([...preparation.numbers, ...preparation.categories].map((own) => own.name));
  for (const name of Object.keys(cells))
    if (!known.has(name) && !preparation.left_out.includes(name))
      throw new Error(`there is no column ${name}`);
  const values = preparation.numbers.map((own) => numberOf(own, cells[own.name]));
  const row = preparation.numbers.map((own, at) =>
    ((Number.isNaN(values[at]) ? own.fill : values[at]) - own.mean) / own.scale);
  preparation.numbers.forEach((own, at) => {
    if (own.missing) row.push(Number.isNaN(values[at]) ? 1 : 0);
  });
  for (const own of preparation.categories) {
    const text = isMissing(cells[own.name]) ? "" : String(cells[own.name]);
    for (const name of own.names) row.push(name === text ? 1 : 0);
    if (own.other) row.push(own.names.includes(text) ? 0 : 1);
  }
  return Float32Array.from(row);
}

function isMissing(cell) {
  return cell === undefined || cell === null || cell === "";
}

function numberOf(own, cell) {
  if (isMissing(cell)) return NaN;
  const parse = { date: daysOf, boolean: (text) => ({ true: 1, false: 0 })[text], number: Number };
  const value = parse[own.kind](String(cell).trim());
  if (!(Math.abs(value) < 3.4e38))
    throw new Error(`column ${own.name} holds ${cell}, not a ${own.kind}`);
  return value;
}

/* Days since 1970-01-01; a time without a zone is UTC. */
function daysOf(text) {
  if (!/^\d{4}-\d\d-\d\d/.test(text)) return NaN;
  const moment = text.replace(" ", "T");
  const zone = moment.length === 10 || /(Z|[+-]\d\d:?\d\d)$/.test(moment) ? "" : "Z";
  return Date.parse(moment + zone) / 864e5;
}

/* Bytes from base64 of a gzip file. */
async function inflate(text) {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

/* The net of the constants META, MODULE, NET and GRAPH. */
async function load() {
  const [module, bytes] = await Promise.all([inflate(MODULE), inflate(NET)]);
  const net = await GassipNet.open(module, bytes, META);
  if (GRAPH) net.setGraph(readTensors(await inflate(GRAPH)));
  return net;
}
