// placeLabels([{x, y, w, h}], width, height) places the labels of a scatter plot. Points are in pixels, each with the size
// of its label. Returns the offset of each label's centre from its point, and whether a line must join the two.
const placeLabels = (points, width, height) => {
  // Greedy, in order of x: each label takes the nearest place around its point that lies within the chart and
  // covers neither a point nor a label that is already placed.
  const gap = 9, taken = points.map(p => ({ x: p.x, y: p.y, w: 13, h: 13, of: p }));
  const meets = (a, b) => Math.abs(a.x - b.x) * 2 < a.w + b.w && Math.abs(a.y - b.y) * 2 < a.h + b.h;
  const shared = (a, b) =>
    Math.max(0, (a.w + b.w) / 2 - Math.abs(a.x - b.x)) * Math.max(0, (a.h + b.h) / 2 - Math.abs(a.y - b.y));
  const order = points.map((_, i) => i).sort((i, j) => points[i].x - points[j].x || points[i].y - points[j].y);
  const places = [];
  for (const i of order) {
    const p = points[i], up = p.h / 2 + gap, side = p.w / 2 + gap;
    const ways = [[0, -up], [0, up], [side, 0], [-side, 0]];
    for (let k = 1; k <= 12; k++) {
      const far = k * p.h;
      ways.push([0, -up - far], [0, up + far], [side, -far], [-side, -far], [side, far], [-side, far],
        [side + far, -far / 2], [-side - far, -far / 2], [side + far, far / 2], [-side - far, far / 2]);
    }
    let best = null, least = Infinity;
    for (const [dx, dy] of ways) {
      const box = { x: p.x + dx, y: p.y + dy, w: p.w, h: p.h };
      if (box.x - box.w / 2 < 0 || box.x + box.w / 2 > width || box.y - box.h / 2 < 0
        || box.y + box.h / 2 > height) continue;
      const covered = taken.reduce((sum, b) => sum + (b.of !== p && meets(box, b) ? shared(box, b) : 0), 0);
      if (covered < least) { best = { dx, dy, box }; least = covered; }
      if (covered === 0) break;
    }
    best ??= { dx: 0, dy: -up, box: { x: p.x, y: p.y - up, w: p.w, h: p.h } };
    taken.push(best.box);
    places[i] = { dx: best.dx, dy: best.dy, far: Math.abs(best.dy) > up + 1 || Math.abs(best.dx) > side + 1
      || (best.dx !== 0 && best.dy !== 0) };
  }
  return places;
};
