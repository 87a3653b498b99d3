// The report's data with its numbers resolved: nodes, stages, kernels. See report.py for its form.

const viewer = (window.viewer = {});

const [OP, SCOPE, FILE, LINE, COLUMN, , , TYPES, ATTRS, FIRST, PART] = Array(11).keys();
const PARTS = ["forward", "gradient", "update"];

/** One stage of a graph; of one that changed nothing, all but name and summary is the former's. */
class Stage {
  constructor(graph, index, data, before) {
    Object.assign(this, { index, name: data.name, summary: data.summary, count: data.count });
    this.changed = Boolean(data.graph);
    if (!this.changed) {
      const { graph: g, regions, alias, operands, order } = before;
      Object.assign(this, { graph: g, regions, alias, operands, order });
      this.change = { rewritten: [], gone: [], new: [], rewired: [] };
      return;
    }
    this.graph = data.graph;
    this.regions = new Map(Object.entries(data.regions).map(([u, r]) => [Number(u), r]));
    this.alias = new Map(data.alias);
    this.change = data.change;
    this.order = [];
    this.operands = new Map();
    this.collect(data.graph, data.operands, before);
  }

  collect(graph, changed, before) {
    for (const uid of graph.nodes) {
      this.order.push(uid);
      this.operands.set(uid, changed[uid] ?? before.operands.get(uid));
      for (const region of this.regions.get(uid) ?? []) this.collect(region, changed, before);
    }
  }

  has(uid) {
    return this.operands.has(uid);
  }

  /** The value of the outermost graph behind an input of a region. */
  outer(value) {
    while (this.alias.has(value)) value = this.alias.get(value);
    return value;
  }
}

class Graph {
  constructor(data) {
    this.data = data;
    this.name = data.name;
    this.code = data.code;
    this.nodes = data.nodes.map((row, uid) => this.node(row, uid));
    this.producer = new Int32Array(data.values.length).fill(-1);
    for (const n of this.nodes) n.types.forEach((_, i) => { this.producer[n.first + i] = n.uid; });
    this.stages = [];
    data.stages.forEach((s, i) => this.stages.push(new Stage(this, i, s, this.stages[i - 1])));
    this.places = new Map();
    for (const n of this.nodes) {
      if (!this.places.has(n.place)) this.places.set(n.place, []);
      this.places.get(n.place).push(n.uid);
    }
    this.callsOf = new Map();
    this.code.calls.forEach((call, i) => {
      for (const uid of call.nodes) {
        if (!this.callsOf.has(uid)) this.callsOf.set(uid, []);
        this.callsOf.get(uid).push(i);
      }
    });
    this.userTables = new Map();
  }

  /** What changed from one stage to another: of neighbours what the pass did. */
  change(from, to) {
    if (from === to - 1) return this.stages[to].change;
    const [a, b] = [this.stages[from].operands, this.stages[to].operands];
    const places = new Map();
    const note = (uid, side) => {
      const { place, scope, file } = this.nodes[uid];
      const key = scope || file ? place : `${uid}`;
      if (!places.has(key)) places.set(key, [[], []]);
      places.get(key)[side].push(uid);
    };
    for (const uid of a.keys()) if (!b.has(uid)) note(uid, 0);
    for (const uid of b.keys()) if (!a.has(uid)) note(uid, 1);
    const both = [...places.values()];
    return {
      rewritten: both.filter(([g, n]) => g.length && n.length),
      gone: both.filter(([, n]) => !n.length).flatMap(([g]) => g),
      new: both.filter(([g]) => !g.length).flatMap(([, n]) => n),
      rewired: [...b.keys()].filter((u) => a.has(u) && String(a.get(u)) !== String(b.get(u))),
    };
  }

  node(row, uid) {
    const d = this.data;
    const file = d.files[row[FILE]];
    const attrs = d.attrs[row[ATTRS]];
    return {
      uid, op: d.ops[row[OP]], kind: d.kinds[row[OP]], scope: d.scopes[row[SCOPE]], file,
      line: row[LINE], column: row[COLUMN], types: row[TYPES].map((t) => d.types[t]),
      attrs: attrs ? attrs.split("\n").map((a) => {
        const at = a.indexOf("=");
        return [a.slice(0, at), a.slice(at + 1)];
      }) : [],
      first: row[FIRST], part: PARTS[row[PART]],
      where: file ? `${file}:${row[LINE]}` : "",
      place: `${d.scopes[row[SCOPE]]}\n${file}:${row[LINE]}:${row[COLUMN]}`,
    };
  }

  value(v) {
    const [type, name, kind] = this.data.values[v];
    return { type, name, kind };
  }

  /** The nodes that read each value at a stage. */
  users(stage) {
    if (!this.userTables.has(stage.operands)) {
      const table = new Map();
      for (const [uid, operands] of stage.operands) {
        for (const v of operands) {
          if (!table.has(v)) table.set(v, []);
          table.get(v).push(uid);
        }
      }
      this.userTables.set(stage.operands, table);
    }
    return this.userTables.get(stage.operands);
  }

  /** The operands of a node at the last stage that has it. */
  readsOf(uid) {
    return this.stages.findLast((s) => s.has(uid))?.operands.get(uid);
  }

  /** What a value is called: an input's name, else its node and result. */
  valueName(v, stage) {
    const outer = stage.outer(v);
    const uid = this.producer[outer];
    if (uid < 0) return this.value(outer).name || `input ${outer}`;
    const n = this.nodes[uid];
    if (n.op === "constant") return this.constant(n);
    return n.types.length > 1 ? `${n.op}.${uid}[${outer - n.first}]` : `${n.op}.${uid}`;
  }

  constant(n) {
    const text = n.attrs[0]?.[1] ?? "";
    const short = /^lit<(.*?)>\[(.*)\]$/s.exec(text);
    if (!short) return text;
    if (short[2].includes(",")) return `${short[1]} [${short[2]}]`;
    const number = Number(short[2]);
    return Number.isFinite(number) ? String(Number(number.toPrecision(7))) : short[2];
  }

  /** The weights and constants that a node reads, by name. */
  chips(uid, stage) {
    const out = [];
    for (const v of stage.operands.get(uid) ?? []) {
      const outer = stage.outer(v);
      const made = this.producer[outer];
      if (made < 0 && this.value(outer).kind !== "input") {
        out.push({ weight: true, text: this.value(outer).name });
      } else if (made >= 0 && this.nodes[made].op === "constant") {
        out.push({ weight: false, text: this.constant(this.nodes[made]) });
      }
    }
    return out;
  }

  /** The parameters that a node's results replace. */
  writes(uid, stage) {
    const n = this.nodes[uid];
    return stage.graph.updates.filter(([, now]) => now >= n.first && now < n.first + n.types.length)
      .map(([old]) => this.value(old).name);
  }

  /** The calls of kernels that do a node's work; of a node that is gone, those of its place. */
  calls(uids) {
    const found = new Set();
    for (const uid of uids) for (const c of this.callsOf.get(uid) ?? []) found.add(c);
    if (!found.size) {
      for (const uid of uids) {
        const n = this.nodes[uid];
        if (!n.file && !n.scope) continue;
        for (const other of this.places.get(n.place)) {
          if (this.nodes[other].part !== n.part) continue;
          for (const c of this.callsOf.get(other) ?? []) found.add(c);
        }
      }
    }
    return [...found].sort((a, b) => a - b);
  }

  /** The nodes of a stage that stand where given ones stood in another. */
  carried(uids, stage) {
    const out = new Set();
    for (const uid of uids) {
      if (stage.has(uid)) {
        out.add(uid);
        continue;
      }
      const n = this.nodes[uid];
      for (const other of this.places.get(n.place)) {
        if (stage.has(other) && this.nodes[other].part === n.part) out.add(other);
      }
    }
    return out;
  }

  /** Forward nodes that a gradient node comes from, or gradient nodes of a forward one. */
  counterparts(uid, stage) {
    const n = this.nodes[uid];
    if (n.part === "update" || !(n.scope || n.file)) return [];
    const other = n.part === "gradient" ? "forward" : "gradient";
    return this.places.get(n.place).filter((u) => stage.has(u) && this.nodes[u].part === other
      && this.nodes[u].op !== "constant");
  }
}

/** The text of a kernel: LLVM, assembly, and the line of the one for each line of the other. */
const texts = new Map();
viewer.kernelText = async (number) => {
  if (!texts.has(number)) {
    const packed = document.getElementById(`text${number}`)?.textContent;
    if (!packed) return { llvm: "", asm: "", lines: [] };
    const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    texts.set(number, JSON.parse(await new Response(stream).text()));
  }
  return texts.get(number);
};

viewer.load = () => {
  const data = JSON.parse(document.getElementById("data").textContent);
  return { ...data, graphs: data.graphs.map((g) => new Graph(g)) };
};

viewer.bytes = (n) => {
  const units = ["B", "KiB", "MiB", "GiB"];
  let i = 0;
  while (n >= 1024 && i < 3) { n /= 1024; i += 1; }
  return `${i ? n.toFixed(n < 10 ? 2 : 1) : n} ${units[i]}`;
};

viewer.seconds = (t) => (t >= 1 ? `${t.toFixed(2)} s` : t >= 1e-3 ? `${(t * 1e3).toPrecision(3)} ms`
  : `${(t * 1e6).toPrecision(3)} µs`);

viewer.count = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;
