// The comparison board: cost against lateness, the runs of one load over time, and their decisions.
(() => {
  const board = Page.read("ebbflow-data"), byId = id => document.getElementById(id);
  const shown = new Set(board.strategies.filter(s => s.shown).map(s => s.name));
  const grey = Page.style("figure-grid"), muted = Page.style("figure-muted"), red = Page.style("slo");
  const font = Page.style("font"), edge = Page.style("marker-edge");
  const base = { template: "none", paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: font, size: 13 }, hoverlabel: { font: { size: 12, family: font }, align: "left",
    namelength: -1 } };
  // Plotly interprets some markup in texts; names and reasons are plain text.
  const plain = text => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/%\{/g, "% {");
  const wrapped = text => {
    const lines = [""];
    for (const word of String(text).split(" ")) {
      if ((lines[lines.length - 1] + word).length > 66) lines.push("");
      lines[lines.length - 1] += word + " ";
    }
    return lines.map(line => plain(line.trim())).join("<br>");
  };
  const stopwatch = s => {
    const h = Math.floor(s / 3600), m = Math.floor(s / 60) % 60, r = Math.floor(s % 60);
    const two = n => String(n).padStart(2, "0");
    return h ? `${h}:${two(m)}:${two(r)}` : `${m}:${two(r)}`;
  };
  let current = board.loads[0], scene = current.seeds[0];

  // Cost against late rows, on a logarithmic scale with a floor for "none".
  const floor = 0.0001, known = board.strategies.filter(
    s => s.scores.cost_ratio != null && s.scores.violation != null);
  const late = s => Math.max(s.scores.violation, floor), allowed = 1 - board.slo.quantile;
  const costs = () => {
    if (known.length < 2) { byId("costs").hidden = true; return; }
    const ticks = [0.0001, 0.001, 0.01, 0.1, 1], lines = [];
    if (allowed > floor) lines.push({ type: "line", xref: "paper", x0: 0, x1: 1, y0: allowed, y1: allowed,
      line: { color: red, width: 1.3, dash: "dash" } });
    const notes = [{ xref: "paper", yref: "paper", x: 0, y: 1, xanchor: "left", yanchor: "bottom", yshift: 8,
      showarrow: false, font: { size: 13 },
      text: `<b>Cost and lateness</b>  <span style="color:${muted}">left and low is good</span>` }];
    if (allowed > floor) notes.push({ xref: "paper", x: 1, xanchor: "left", y: Math.log10(allowed),
      showarrow: false, xshift: 3, text: "SLO", font: { size: 11.5, color: red } });
    const chart = byId("costs"), pen = document.createElement("canvas").getContext("2d");
    pen.font = `12px ${font}`;
    const named = () => {  // needs the drawn axes
      const { xaxis, yaxis } = chart._fullLayout;
      const points = known.map(s => ({ x: xaxis.d2p(s.scores.cost_ratio), y: yaxis.d2p(late(s)),
        w: pen.measureText(s.name).width + 6, h: 16 }));
      return placeLabels(points, xaxis._length, yaxis._length).map((place, i) => ({
        x: known[i].scores.cost_ratio, y: Math.log10(late(known[i])), ax: place.dx, ay: place.dy,
        text: plain(known[i].name), font: { size: 12 }, showarrow: true, arrowhead: 0, arrowwidth: 0.8,
        standoff: 6, arrowcolor: place.far ? muted : "rgba(0,0,0,0)", borderpad: 0 }));
    };
    const name = () => Plotly.relayout(chart, { annotations: [...notes, ...named()] });
    Page.draw(chart, known.map(s => ({
      x: [s.scores.cost_ratio], y: [late(s)], mode: "markers", name: plain(s.name), showlegend: false,
      cliponaxis: false,
      marker: { color: s.colour, size: 11, symbol: s.kept ? "circle" : "circle-open", line: { width: 1.6 } },
      hovertemplate: `${plain(s.name)}: %{x:.2f} × hindsight, ${(100 * s.scores.violation).toPrecision(2)} % ` +
        "late<extra></extra>",
    })), { ...base, shapes: lines, annotations: notes, height: 420, margin: { l: 66, r: 40, t: 34, b: 44 },
      xaxis: { title: { text: "node-seconds ÷ hindsight", font: { size: 12, color: muted } }, gridcolor: grey,
        zeroline: false, rangemode: "normal" },
      yaxis: { type: "log", range: [-4.25, 0.25], gridcolor: grey, tickvals: ticks, zeroline: false,
        ticktext: ["≤ 0.01 %", "0.1 %", "1 %", "10 %", "100 %"],
        title: { text: "late rows", font: { size: 12, color: muted } } } }).then(name);
    let waits;
    addEventListener("resize", () => { clearTimeout(waits); waits = setTimeout(name, 300); });
  };

  const panels = [
    ["y", [0.80, 0.97], "Load and capacity", "area: arriving, lines: what the working nodes could process, rows/s"],
    ["y2", [0.53, 0.73], "Nodes", "held, ▲▼ decisions, ○ complete, × demanded, dashed grey: hindsight"],
    ["y3", [0.29, 0.46], "Backlog", "rows waiting, just before each commit"],
    ["y4", [0.0, 0.22], "Freshness", "latency of the oldest row of each commit, s"],
  ];
  const traces = (load, unit) => {  // load: the runs of one seed on it
    const at = curve => curve[0].map(t => t / unit), all = [];
    if (!load.load) return all;
    all.push({ x: at(load.load), y: load.load[1], yaxis: "y", mode: "lines", line: { width: 0 },
      fill: "tozeroy", fillcolor: Page.style("figure-area"), name: "load",
      hovertemplate: "arriving %{y:,.0f} rows/s<extra></extra>" });
    if (load.hindsight) all.push({ x: at(load.hindsight), y: load.hindsight[1], yaxis: "y2", mode: "lines",
      name: "hindsight", line: { color: muted, width: 1.4, dash: "dash", shape: "hv" },
      hovertemplate: "hindsight %{y:.1f}<extra></extra>" });
    for (const s of board.strategies) {
      const run = load.runs[s.name];
      if (!run || !shown.has(s.name)) continue;
      const line = (curve, yaxis, shape, width, text) => all.push({ x: at(curve), y: curve[1], yaxis,
        mode: "lines", name: plain(s.name), line: { color: s.colour, dash: s.dash, width, shape },
        hovertemplate: `${plain(s.name)} · ${text}<extra></extra>` });
      const could = [run.working[0], run.working[1].map(n => load.capacity[Math.round(n)] ?? null)];
      line(could, "y", "hv", 1.4, "capacity %{y:,.0f} rows/s");
      line(run.held, "y2", "hv", 1.8, "held %{y:d}");
      if (run.acts.length) all.push({ x: run.acts.map(a => a[0] / unit), y: run.acts.map(a => a[1]),
        yaxis: "y2", mode: "markers", name: plain(s.name), cliponaxis: false,
        marker: { color: s.colour, size: 8, line: { color: edge, width: 1 },
          symbol: run.acts.map(a => a[2] > 0 ? "triangle-up" : a[2] < 0 ? "triangle-down" : "diamond") },
        text: run.acts.map(a => `<b>${plain(s.name)} ${stopwatch(a[0])}  ${plain(a[3])}</b><br>` +
          wrapped(a[4]) + (a[5] ? `<br><i>bound by ${wrapped(a[5])}</i>` : "") +
          (a[9] ? `<br><i>${wrapped(a[9])}</i>` : "")),
        hovertemplate: "%{text}<extra></extra>" });
      const marks = run.acts.flatMap(a => [[a[7], a[1], "circle-open"], [a[8], a[1], "x-thin-open"]])
        .filter(mark => mark[0] != null);
      if (marks.length) all.push({ x: marks.map(m => m[0] / unit), y: marks.map(m => m[1]), yaxis: "y2",
        mode: "markers", name: plain(s.name), cliponaxis: false, hoverinfo: "skip",
        marker: { color: s.colour, size: 6, symbol: marks.map(m => m[2]), line: { color: s.colour, width: 1.2 } } });
      line(run.backlog, "y3", "linear", 1.5, "backlog %{y:,.0f} rows");
      line(run.freshness, "y4", "linear", 1.5, "oldest row %{y:,.1f} s");
    }
    return all;
  };
  const timeline = () => {
    const load = scene, span = load.span || 1;
    const [unit, suffix] = span > 10800 ? [3600, " h"] : span > 600 ? [60, " min"] : [1, " s"];
    const axes = {}, notes = [], slo = board.slo.freshness;
    let worst = slo * 1.2;
    for (const name of shown) for (const v of (load.runs[name]?.freshness[1] ?? [])) worst = Math.max(worst, v * 1.05);
    let most = (load.capacity || [0, 0]).length - 1;  // a recorded run may have held more than the limits allow
    for (const name of shown) for (const n of (load.runs[name]?.held[1] ?? [])) most = Math.max(most, n);
    for (const [name, domain, title, subtitle] of panels) {
      axes["yaxis" + name.slice(1)] = { domain, anchor: "x", gridcolor: grey, zeroline: false, nticks: 4,
        rangemode: "tozero", separatethousands: true, exponentformat: "none", tickfont: { size: 11.5 },
        fixedrange: true, ...(name === "y4" ? { range: [0, worst] } : {}),
        ...(name === "y2" ? { range: [0, most * 1.1], nticks: 6 } : {}) };
      notes.push({ xref: "paper", yref: "paper", x: 0, y: domain[1], xanchor: "left", yanchor: "bottom", yshift: 5,
        showarrow: false, font: { size: 13 }, text: `<b>${title}</b>  <span style="color:${muted}">${subtitle}</span>` });
    }
    notes.push({ xref: "paper", x: 1, xanchor: "left", yref: "y4", y: slo, showarrow: false, xshift: 3,
      text: "SLO", font: { size: 11.5, color: red } });
    const shapes = [{ type: "line", xref: "paper", x0: 0, x1: 1, yref: "y4", y0: slo, y1: slo,
      line: { color: red, width: 1.3, dash: "dash" } }];
    return Page.draw(byId("timeline"), traces(load, unit), { ...base, ...axes, annotations: notes, shapes,
      height: 900, margin: { l: 58, r: 44, t: 6, b: 46 }, showlegend: false, hovermode: "x unified",
      dragmode: "zoom", uirevision: current.name,
      xaxis: { anchor: "y4", range: [0, span / unit], gridcolor: grey, zeroline: false, ticksuffix: suffix,
        hoverformat: ",.2f", title: { text: "time since start", font: { size: 12, color: muted } },
        showspikes: true, spikemode: "across", spikethickness: 1, spikedash: "solid",
        spikecolor: Page.style("figure-spike"), spikesnap: "cursor", tickfont: { size: 11.5 } } });
  };

  const chips = () => {
    byId("chips").replaceChildren(...board.strategies.map(s => {
      const chip = document.createElement("button"), dot = document.createElement("i");
      chip.type = "button";
      dot.className = "dot";
      dot.style.background = s.colour;
      chip.append(dot, s.name);
      const summary = document.createElement("small");
      summary.textContent = scene.runs[s.name]?.summary ?? "not drawn";
      chip.append(summary);
      chip.setAttribute("aria-pressed", shown.has(s.name));
      chip.addEventListener("click", () => {
        if (!shown.delete(s.name)) shown.add(s.name);
        chip.setAttribute("aria-pressed", shown.has(s.name));
        timeline();
      });
      return chip;
    }));
  };
  const acts = () => {
    const name = byId("whose").value, run = scene.runs[name];
    const entries = run ? run.acts : [], cell = (text, kind) => {
      const td = document.createElement("td");
      td.textContent = text;
      if (kind) td.className = kind;
      return td;
    };
    byId("acts").replaceChildren(...entries.map(a => {
      const row = document.createElement("tr");
      row.className = "act";
      row.append(cell(stopwatch(a[0]), "time"), cell(a[3], a[2] > 0 ? "change up" : "change down"),
        cell(a[4], "why"), cell(a[5] || "–", "bound"), cell(a[6] || "–", "effect"),
        cell(a[9] || "–", "points"));
      return row;
    }));
    const all = run ? run.actsInAll : 0, where = `on ${current.name}, seed ${scene.seed}`;
    byId("acts-count").textContent = !run ? "This run is not in the page."
      : !all ? "This run has no changes, or its decisions are unknown."
      : entries.length < all ? `The ${entries.length} largest of ${all} changes ${where}; the other ` +
        `${all - entries.length} are left out here and in the chart.`
      : `All ${all} changes ${where}.`;
  };
  const play = seed => {
    scene = current.seeds[seed];
    byId("seed").value = seed;
    byId("load-text").textContent = scene.text + (current.sampled ? `, ${current.sampled}` : "");
    chips();
    timeline();
    acts();
  };
  const choose = index => {
    const before = Number(byId("seed").value) || 0;
    current = board.loads[index];
    byId("load").value = index;
    byId("seed").replaceChildren(...current.seeds.map((one, i) => new Option(one.seed, i)));
    play(before < current.seeds.length ? before : 0);
  };
  const whose = byId("whose");
  whose.replaceChildren(...board.strategies.map(s => new Option(s.name, s.name)));
  whose.addEventListener("change", acts);
  byId("seed").addEventListener("change", event => play(Number(event.target.value)));
  byId("load").addEventListener("change", event => choose(Number(event.target.value)));
  document.querySelectorAll("[data-load]").forEach(button => button.addEventListener("click", () => {
    choose(Number(button.dataset.load));
    byId("runs").scrollIntoView({ behavior: "smooth" });
  }));
  costs();
  choose(0);
})();
