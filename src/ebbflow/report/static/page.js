// What all pages share: read embedded data, draw charts in the colours of day or night, save the data.
const Page = (() => {
  const read = id => JSON.parse(document.getElementById(id).textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const style = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const inks = night => {
    const of = name => style(night ? `${name}-dark` : name);
    return { "font.color": of("figure-ink"), "hoverlabel.bgcolor": of("hover-ground"),
      "hoverlabel.bordercolor": of("hover-edge"), "hoverlabel.font.color": of("figure-ink") };
  };
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
  return { read, draw, style };
})();
