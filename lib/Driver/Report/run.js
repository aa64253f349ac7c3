// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What a run's log and trace have measured, beside what is predicted.

function median(values) {
  const sorted = values.slice().sort((a, b) => a - b);
  return sorted.length ? sorted[sorted.length >> 1] : undefined;
}

// Points [x, y], and a dashed line at what was predicted.
function curveChart(title, points, expected, expectedWord, format, color, width) {
  const height = 170, left = 68, right = 10, top = 12;
  const ys = points.map(point => point[1]).concat(expected === undefined ? [] : [expected]);
  const fromZero = expected !== undefined;
  const low = fromZero ? 0 : Math.min(...ys), high = Math.max(...ys) * (fromZero ? 1.06 : 1) || 1;
  const first = points[0][0], last = points[points.length - 1][0];
  const x = value => left + (last > first ? (value - first) / (last - first) : 0.5) * (width - left - right);
  const y = value => top + (height - top) * (high > low ? (high - value) / (high - low) : 0.5);
  const parts = [];
  for (const value of [low, (low + high) / 2, high])
    parts.push(svg('line', { class: 'axis', x1: left, x2: width - right, y1: y(value), y2: y(value) }),
      svg('text', { x: left - 6, y: y(value) + 4, 'text-anchor': 'end' }, format(value)));
  parts.push(svg('text', { x: left, y: height + 16 }, 'step ' + first), svg('text', { x: width - right, y: height + 16, 'text-anchor': 'end' }, String(last)),
    svg('polyline', { class: 'curve', stroke: `var(--${color})`, points: points.map(point => `${x(point[0]).toFixed(1)},${y(point[1]).toFixed(1)}`).join(' ') }));
  if (expected !== undefined)
    parts.push(svg('line', { class: 'limit', x1: left, x2: width - right, y1: y(expected), y2: y(expected) }),
      svg('text', { class: 'label', x: left + 4, y: y(expected) - 4 }, `${expectedWord} ${format(expected)}`));
  return svg('svg', { viewBox: `0 0 ${width} ${height + 22}`, height: height + 22, role: 'img',
    'aria-label': `${title}: from ${format(points[0][1])} to ${format(points[points.length - 1][1])}` + (expected === undefined ? '' : `; ${expectedWord} ${format(expected)}`) }, parts);
}

function runSection() {
  const measured = data.communication.measured_exposed_ms;
  if (!data.run && measured === undefined) return null;
  const charts = [];
  const add = (title, points, expected, word, format, color) => {
    if (points.length === 0) return;
    const holder = el('div', {});
    drawn(holder, width => curveChart(title, points, expected, word, format, color, width));
    charts.push(el('div', {}, el('h3', {}, title), holder));
  };
  const told = [];
  if (data.run) {
    const points = data.run.points;
    const of = key => points.filter(point => point[key] !== undefined).map(point => [point.step, point[key]]);
    const steps = median(of('step_ms').map(point => point[1]));
    const alone = data.timeline && data.timeline.step_ms > 0 ? data.timeline.step_ms : undefined;
    told.push(`${plural(data.run.steps, 'step')} logged`, steps !== undefined && `the median step took ${millis(steps)}`,
      alone !== undefined && `${millis(alone)} is predicted for ${data.timeline.device}`,
      `at most ${bytes(data.memory.run_measured_bytes)} measured, ${bytes(data.memory.run_peak_bytes)} planned by the run`);
    add('Loss', of('loss'), undefined, '', value => value.toFixed(3), 'kept');
    add('Time of a step', of('step_ms'), alone, 'predicted', millis, 'masters');
    add('Memory of the largest rank', of('pss_bytes'), data.memory.run_peak_bytes, 'planned', bytes, 'gathered');
  }
  if (measured !== undefined)
    told.push(`waits of a step: ${millis(data.communication.exposed_ms)} predicted, ${millis(measured)} measured with ${plural(data.communication.measured_ranks, 'rank')}`);
  return section('run', 'A run', told.filter(Boolean).join(' · '), el('div', { class: 'charts' }, charts));
}
