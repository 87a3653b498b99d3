// Which ranks come to each collective, and what one of them sends.

{
  const { svg, html } = viewer;
  const ROW = 20, GAP = 34, LEFT = 150, HEAD = 26, MOST_COLLECTIVES = 300, MOST_SHOWN = 64;

  /** Ranks as columns, collectives as rows in the order of the program; by line what they send. */
  viewer.drawRanks = function drawRanks(app) {
    const found = app.graph.data.ranks;
    if (!found.length) {
      return html("p", { class: "hint" }, "No collectives: this graph is one process's. cellc inspect --ranks N shows that of one of N.");
    }
    const rows = found.slice(0, MOST_COLLECTIVES);
    const all = [...new Set(found.flatMap((f) => f[2]))].sort((a, b) => a - b);
    const shown = all.slice(0, MOST_SHOWN);
    const x = (rank) => LEFT + shown.indexOf(rank) * GAP, wide = LEFT + shown.length * GAP + 360;
    const high = HEAD + rows.length * ROW + 10;
    const picture = svg("svg", { width: wide, height: high, role: "img",
      "aria-label": `${found.length} collectives of ${all.length} ranks` });
    for (const rank of shown) {
      picture.append(text(`${rank}`, x(rank), 16, "middle"),
        svg("line", { class: "column", x1: x(rank), x2: x(rank), y1: HEAD - 4, y2: high }));
    }
    picture.append(text(all.length > shown.length ? `rank (${shown.length} of ${all.length})` : "rank", LEFT - 24, 16, "end"));
    rows.forEach((row, i) => picture.append(meeting(app, row, HEAD + (i + 0.5) * ROW, shown, x)));
    return html("div", { class: "memory ranks" }, html("div", { class: "picture" }, picture), lists(app, found));
  };

  function meeting(app, [uid, op, ranks, bytes], y, shown, x) {
    const here = ranks.filter((r) => shown.includes(r)).map(x);
    const g = svg("g", { class: "meet", "data-collective": uid, tabindex: -1 });
    g.append(text(op, LEFT - 24, y + 4, "end"));
    if (here.length) g.append(svg("line", { x1: Math.min(...here), x2: Math.max(...here), y1: y, y2: y }));
    for (const at of here) g.append(svg("circle", { cx: at, cy: y, r: 5 }));
    const n = app.graph.nodes[uid];
    g.append(text(`${viewer.bytes(bytes)}  ${n.where}  ${n.scope}`, LEFT + shown.length * GAP + 4, y + 4, "start"));
    const title = svg("title");
    title.textContent = `${op} ${n.types.join(", ")} of the ranks ${ranks.join(", ")}: each sends ${viewer.bytes(bytes)}`;
    g.append(title);
    g.addEventListener("click", () => app.goTo(uid));
    return g;
  }

  /** What a rank sends in a call, by collective and by line, most first. */
  function lists(app, found) {
    const total = found.reduce((s, f) => s + f[3], 0);
    const kinds = sums(found, (f) => f[1]);
    const lines = sums(found, (f) => app.graph.nodes[f[0]].where || "(no line)");
    return html("div", { class: "lists" }, html("h3", {}, `A rank sends ${viewer.bytes(total)} in a call`),
      html("h3", {}, "By collective"), list(kinds), html("h3", {}, "By line"), list(lines));
  }

  function sums(found, key) {
    const out = new Map();
    for (const f of found) {
      const [count, bytes] = out.get(key(f)) ?? [0, 0];
      out.set(key(f), [count + 1, bytes + f[3]]);
    }
    return [...out].sort((a, b) => b[1][1] - a[1][1]);
  }

  function list(rows) {
    return html("ol", {}, ...rows.map(([name, [count, bytes]]) => html("li", {}, html("b", {}, viewer.bytes(bytes)),
      ` ${name} `, html("span", { class: "dim" }, `${count} of them`))));
  }

  function text(words, x, y, anchor) {
    const t = svg("text", { x, y, "text-anchor": anchor });
    t.textContent = words;
    return t;
  }
}
