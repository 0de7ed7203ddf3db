"""Style sheet and script of the page, as text, because a page is one file and loads nothing."""

from __future__ import annotations

STYLE = """
:root {
  color-scheme: light dark;
  --ink: #1f2328; --muted: #626b77; --faint: #e6e8eb; --paper: #ffffff; --ground: #f7f7f5;
  --act: #0b5cad; --act-ground: #e7f0fa; --hold-ground: #eff0f1; --up: #0072b2; --down: #b35a00;
  --good: #00704f; --bad: #b3261e;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e4e7eb; --muted: #9aa4b1; --faint: #2d323a; --paper: #181b20; --ground: #101216;
    --act: #7db8f0; --act-ground: #17304a; --hold-ground: #262a31; --up: #6db3e8; --down: #f0a35e;
    --good: #4fc39a; --bad: #f2867e;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--ground); color: var(--ink); line-height: 1.5; font-size: 15px;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  -webkit-text-size-adjust: 100%;
}
main { max-width: 1180px; margin: 0 auto; padding: 40px 24px 56px; }
header .eyebrow { color: var(--muted); font-size: 14px; margin: 0 0 10px; }
h1 { font-size: clamp(23px, 2.9vw, 32px); line-height: 1.24; font-weight: 650; letter-spacing: -0.014em;
  margin: 0 0 12px; max-width: 32em; text-wrap: balance; }
:is(h1, h2) .mark { display: inline-block; width: 0.5em; height: 0.5em; border-radius: 50%; margin-right: 0.4em;
  vertical-align: 0.1em; background: var(--muted); }
.kept > .mark { background: var(--good); } .missed > .mark { background: var(--bad); }
.versus { margin: 0; padding: 0; list-style: none; color: var(--muted); font-size: 16px; max-width: 54em; }
.facts { color: var(--muted); font-size: 14px; margin: 14px 0 0; }
.facts span + span::before { content: "·"; margin: 0 8px; }
h2 { font-size: 17px; font-weight: 650; margin: 0 0 14px; }
section { background: var(--paper); border: 1px solid var(--faint); border-radius: 10px; padding: 22px 24px;
  margin-top: 20px; }
.overview { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 12px 48px; }
.overview > div { min-width: 0; }
.chart { width: 100%; } #timeline { min-height: 860px; }
.hint { color: var(--muted); font-size: 13px; margin: 4px 0 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 14px; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 400; }
thead th { color: var(--muted); font-size: 13px; padding: 4px 0 7px; border-bottom: 1px solid var(--faint); }
abbr { text-decoration: underline dotted var(--muted) 1px; text-underline-offset: 3px; cursor: help; }
.scores thead th, .scores td { text-align: right; padding-left: 18px; white-space: nowrap; }
.scores thead th { color: var(--ink); font-weight: 600; }
.scores tr.group th { font-size: 12px; color: var(--muted); padding: 11px 0 2px; letter-spacing: 0.02em; }
.scores tbody tr:not(.group) > * { padding-top: 3px; padding-bottom: 3px; }
.scores .best { font-weight: 700; } .scores .bad { color: var(--bad); font-weight: 600; }
.scores.alone { display: grid; grid-template-columns: repeat(auto-fit, minmax(240px, 1fr)); gap: 6px 52px; }
.scores.alone thead { display: none; } .scores.alone tbody { display: table; width: 100%; height: 0; }
.dot { display: inline-block; width: 9px; height: 9px; border-radius: 50%; margin-right: 7px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(200px, 1fr)); gap: 18px 28px;
  margin: 0 0 20px; padding-bottom: 20px; border-bottom: 1px solid var(--faint); }
.tiles dt { color: var(--muted); font-size: 13.5px; }
.tiles dd { margin: 0; font-size: 30px; font-weight: 600; letter-spacing: -0.02em; line-height: 1.15; }
.tiles small { color: var(--muted); font-size: 13.5px; font-weight: 400; letter-spacing: 0; display: block;
  margin-top: 3px; }
.tools { display: flex; flex-wrap: wrap; gap: 6px 22px; align-items: center; margin: 0 0 14px;
  font-size: 14px; }
.tools h2 { margin: 0 auto 0 0; }
.tools label { display: inline-flex; gap: 6px; align-items: center; cursor: pointer; }
.tools select, button { font: inherit; color: inherit; background: var(--paper);
  border: 1px solid var(--faint); border-radius: 6px; padding: 3px 9px; cursor: pointer; }
.run > summary { font-weight: 600; padding: 9px 0; border-top: 1px solid var(--faint); cursor: pointer; }
.run > summary small { color: var(--muted); font-weight: 400; font-size: 13.5px; margin-left: 8px; }
.ledger td { vertical-align: top; padding: 8px 16px 8px 0; border-bottom: 1px solid var(--faint); }
.ledger thead th { padding-right: 16px; white-space: nowrap; }
.ledger .time { white-space: nowrap; color: var(--muted); } .ledger .change { white-space: nowrap; }
.ledger .why { width: 48%; min-width: 260px; } .ledger .bound { min-width: 90px; }
.ledger .effect { min-width: 148px; }
.ledger tr.hold .reason, .ledger tr.hold .change { color: var(--muted); }
.ledger tr.act .change { font-weight: 650; } .up { color: var(--up); } .down { color: var(--down); }
.verdict { display: inline-block; border-radius: 4px; padding: 0 7px; font-size: 13px; line-height: 20px; }
.verdict.act { background: var(--act-ground); color: var(--act); font-weight: 600; }
.verdict.hold { background: var(--hold-ground); color: var(--muted); }
.count { color: var(--muted); font-size: 13px; white-space: nowrap; }
.working { display: block; color: var(--muted); font-size: 12.5px; margin-top: 2px; overflow-wrap: anywhere;
  font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  white-space: pre-wrap; }
.reason { overflow-wrap: anywhere; }
.ledger details > summary { cursor: pointer; }
.ledger ol { list-style: none; margin: 8px 0 2px; padding: 0; font-size: 13.5px; color: var(--muted); }
.ledger li { display: grid; grid-template-columns: 4.2em 1fr; padding: 3px 0; }
.none { color: var(--muted); margin: 4px 0; }
.notes { margin: 0; padding-left: 1.2em; } .notes li { margin: 3px 0; }
footer { color: var(--muted); font-size: 13.5px; margin-top: 22px; display: flex; gap: 18px; flex-wrap: wrap;
  align-items: center; justify-content: space-between; }
[hidden] { display: none !important; }
@media (max-width: 820px) {
  main { padding: 24px 14px 40px; } section { padding: 16px 14px; }
  .overview { grid-template-columns: minmax(0, 1fr); }
}
@media print {
  :root { --ink: #000; --muted: #444; --faint: #ccc; --paper: #fff; --ground: #fff; }
  body { font-size: 11.5px; } main { max-width: none; padding: 0; }
  section { border: 0; padding: 10px 0; } .tools label, button, .hint { display: none; }
  tr, .chart, .tiles { break-inside: avoid; } .tools, .run > summary { break-after: avoid; }
  thead { display: table-header-group; }
}
"""

SHELL_SCRIPT = """
const Page = (() => {
  const read = id => JSON.parse(document.getElementById(id).textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const inks = night => night
    ? { "font.color": "#d8dde3", "hoverlabel.bgcolor": "#23272e", "hoverlabel.bordercolor": "#4a515c",
        "hoverlabel.font.color": "#e4e7eb" }
    : { "font.color": "#1f2328", "hoverlabel.bgcolor": "rgba(255,255,255,0.96)",
        "hoverlabel.bordercolor": "#d0d4d9", "hoverlabel.font.color": "#1f2328" };
  const config = { displaylogo: false, responsive: true, displayModeBar: false };
  const paint = night => document.querySelectorAll(".js-plotly-plot")
    .forEach(chart => Plotly.relayout(chart, inks(night)));
  const draw = (chart, data, layout) => Plotly.react(chart, data, layout, config)
    .then(() => Plotly.relayout(chart, inks(dark.matches)));
  dark.addEventListener("change", event => paint(event.matches));
  addEventListener("beforeprint", () => paint(false));
  addEventListener("afterprint", () => paint(dark.matches));
  document.getElementById("save-data").addEventListener("click", () => {
    const text = document.getElementById("ebbflow-data").textContent;
    const blob = new Blob([text], { type: "application/json" });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = "ebbflow-runs.json";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
  return { read, draw };
})();
"""
"""Reading data, drawing charts in the inks of day or night, and saving the data: what all pages do."""

SCRIPT = """
(() => {
  document.querySelectorAll(".chart").forEach(chart => {
    const figure = Page.read(chart.dataset.figure);
    Page.draw(chart, figure.data, figure.layout);
  });

  const act = document.getElementById("show-act"), hold = document.getElementById("show-hold");
  const last = document.getElementById("show-last");
  const filter = () => document.querySelectorAll(".ledger").forEach(table => {
    const rows = [...table.tBodies[0].rows];
    const wanted = rows.filter(row => (row.dataset.verdict === "act" ? act : hold).checked);
    const shown = new Set(last.value === "all" ? wanted : wanted.slice(-Number(last.value)));
    rows.forEach(row => { row.hidden = !shown.has(row); });
  });
  [act, hold, last].forEach(control => control && control.addEventListener("change", filter));
})();
"""
