// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The step: memory by kind and what the queues do, on one axis of time, with a
// cursor that lists what lives there.

const layers = [
  ['masters', 'master weights', ['master weights', 'frozen weights']],
  ['optimizer', 'optimizer state', ['optimizer state', 'offload buffers']],
  ['reduced', 'reduced gradients', ['reduced gradients']],
  ['other', 'inputs, constants, process', []],
  ['gathered', 'gathered parameters', ['gathered parameters']],
  ['gradients', 'full gradients', ['full gradients']],
  ['kept', 'kept for backward', ['kept for backward']],
  ['forward', 'forward', ['forward']],
  ['recomputed', 'computed again', ['recomputed']],
  ['backward', 'backward', ['backward']],
  ['reloaded', 'back from the host', ['back from the host']],
  ['smaller', 'smaller buffers', ['smaller buffers']]];
const layerOf = new Map(layers.flatMap(([, , kinds], index) => kinds.map(kind => [kind, index])));
const inSpaces = ['gathered parameters', 'full gradients', 'activations and workspaces', 'activations and gradients'];
const lanes = [['work', 'work'], ['wait', 'waits for collectives and copies'], ['gather', 'all-gathers'], ['reduce', 'reductions'], ['axis', 'collectives along the mesh'],
  ['update', 'optimizers of the step before'], ['offload', 'copies to the host'], ['reload', 'copies from the host']];
const phases = [['forward', 'forward'], ['recompute', 'computed again'], ['backward', 'backward'], ['update', 'update']];
const spanColor = span => span.queue === 'wait' || span.queue === 'axis' ? 'wait' : span.queue === 'gather' ? 'gathered'
  : span.queue === 'reduce' ? 'gradients' : span.queue === 'offload' || span.queue === 'reload' ? 'reloaded' : { forward: 'kept', recompute: 'recomputed', backward: 'backward', update: 'update' }[span.phase] || 'other';

// Sums of each layer between the times at which one changes.
function memoryOver(timeline, items) {
  const fixed = new Float64Array(layers.length);
  for (const item of items)
    if (!inSpaces.includes(item.name)) fixed[layerOf.has(item.name) ? layerOf.get(item.name) : 3] += item.bytes;
  const changes = [];
  for (const buffer of timeline.buffers) {
    const layer = layerOf.has(buffer.kind) ? layerOf.get(buffer.kind) : layers.length - 1;
    changes.push([buffer.begin_ms, layer, buffer.bytes], [buffer.end_ms, layer, -buffer.bytes]);
  }
  changes.sort((a, b) => a[0] - b[0]);
  const memory = { times: [0], sums: [Float64Array.from(fixed)], totals: [], fixed };
  for (const [time, layer, change] of changes) {
    const last = memory.times.length - 1;
    if (time > memory.times[last]) {
      memory.times.push(time);
      memory.sums.push(Float64Array.from(memory.sums[last]));
    }
    memory.sums[memory.sums.length - 1][layer] += change;
  }
  memory.totals = memory.sums.map(sums => sums.reduce((a, b) => a + b, 0));
  memory.used = layers.map((_, layer) => memory.sums.some(sums => sums[layer] > 0));
  memory.peak = memory.totals.reduce((best, total, at) => total > memory.totals[best] ? at : best, 0);
  return memory;
}
function indexAt(times, time) {
  let low = 0, high = times.length;
  while (low + 1 < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= time) low = middle; else high = middle;
  }
  return low;
}

const margin = { left: 64, right: 10 };

function timeAxis(view, width, height, x) {
  const span = view.end - view.begin;
  const parts = [];
  for (const tick of ticks(view.end, Math.max(3, width / 110) * view.end / span))
    if (tick >= view.begin && tick <= view.end)
      parts.push(svg('line', { class: 'axis', x1: x(tick), x2: x(tick), y1: 0, y2: height }),
        svg('text', { x: Math.min(x(tick), width - 28), y: height + 14, 'text-anchor': 'middle' }, millis(tick)));
  return parts;
}

function memoryChart(memory, view, limit, width) {
  const height = width < 500 ? 210 : 270, top = 14;
  const most = Math.max(limit, memory.totals[memory.peak]) * 1.04;
  const x = time => margin.left + (time - view.begin) / (view.end - view.begin) * (width - margin.left - margin.right);
  const y = value => top + (height - top) * (1 - value / most);
  const columns = [];
  const inside = Math.max(1, Math.floor(width - margin.left - margin.right));
  for (let column = 0; column < inside; ++column) {
    const begin = view.begin + column / inside * (view.end - view.begin);
    const end = view.begin + (column + 1) / inside * (view.end - view.begin);
    let best = indexAt(memory.times, begin);
    for (let at = best + 1; at < memory.times.length && memory.times[at] < end; ++at)
      if (memory.totals[at] > memory.totals[best]) best = at;
    columns.push(best);
  }
  const parts = [];
  for (const tick of ticks(most, 6, 2))
    parts.push(svg('line', { class: 'axis', x1: margin.left, x2: width - margin.right, y1: y(tick), y2: y(tick) }),
      svg('text', { x: margin.left - 6, y: y(tick) + 4, 'text-anchor': 'end' }, bytes(tick).replace(/\.0+ /, ' ')));
  const base = new Float64Array(inside);
  layers.forEach(([color], layer) => {
    let upper = '', lower = '';
    for (let column = 0; column < inside; ++column) {
      const left = (margin.left + column).toFixed(0), right = (margin.left + column + 1).toFixed(0);
      const low = base[column], high = low + memory.sums[columns[column]][layer];
      base[column] = high;
      upper += `L${left} ${y(high).toFixed(1)}L${right} ${y(high).toFixed(1)}`;
      lower = `L${right} ${y(low).toFixed(1)}L${left} ${y(low).toFixed(1)}` + lower;
    }
    if (memory.used[layer])
      parts.push(svg('path', { d: 'M' + upper.slice(1) + lower + 'Z', fill: `var(--${color})`, 'data-layer': color }));
  });
  const line = y(limit);
  parts.push(svg('line', { class: 'limit', x1: margin.left, x2: width - margin.right, y1: line, y2: line }),
    svg('text', { class: 'label', x: width - margin.right - 4, y: line - 4, 'text-anchor': 'end' }, `planned: ${bytes(limit)}`));
  return { node: svg('svg', { viewBox: `0 0 ${width} ${height + 20}`, height: height + 20, role: 'img', id: 'memory-chart',
    'aria-label': `Memory of a rank over the step: at most ${bytes(memory.totals[memory.peak])}, at ${millis(memory.times[memory.peak])}` },
    timeAxis(view, width, height, x), parts), x, height };
}

function queueChart(timeline, view, width) {
  const row = 40, used = lanes.filter(([queue]) => queue === 'work' || timeline.spans.some(span => span.queue === queue));
  const height = used.length * row + 4;
  const x = time => margin.left + (time - view.begin) / (view.end - view.begin) * (width - margin.left - margin.right);
  const parts = [];
  used.forEach(([queue, title], index) => {
    const top = index * row + 16;
    parts.push(svg('text', { class: 'label', x: margin.left, y: top - 4 }, title),
      svg('rect', { x: margin.left, y: top, width: Math.max(0, width - margin.left - margin.right), height: row - 20, fill: 'var(--free)' }));
    let last = -1;
    for (const span of timeline.spans) {
      if (span.queue !== queue || span.end_ms <= view.begin || span.begin_ms >= view.end) continue;
      const left = x(Math.max(span.begin_ms, view.begin)), right = x(Math.min(span.end_ms, view.end));
      if (right - left < 0.4 && left - last < 0.4 && queue !== 'wait') continue; // less than a pixel shows
      last = left;
      parts.push(svg('rect', { x: left.toFixed(2), y: top, width: Math.max(0.5, right - left - (right - left > 3 ? 0.6 : 0)).toFixed(2),
        height: row - 20, fill: `var(--${spanColor(span)})`, 'data-queue': queue }));
    }
  });
  return { node: svg('svg', { viewBox: `0 0 ${width} ${height + 20}`, height: height + 20, role: 'img', id: 'queue-chart',
    'aria-label': `What the queues do over the step of ${millis(timeline.step_ms)}, as predicted for ${timeline.device}` },
    timeAxis(view, width, height, x), parts), x, height };
}

// The tables at the cursor.
function kindsAt(memory, time) {
  const sums = memory.sums[indexAt(memory.times, time)], peak = memory.sums[memory.peak];
  const rows = layers.map(([color, title], layer) => [color, title, sums[layer], peak[layer]]).filter((row, layer) => memory.used[layer]);
  rows.reverse();
  const total = [sums, peak].map(list => list.reduce((a, b) => a + b, 0));
  return table([['kind'], ['at the cursor', true], ['at the peak', true]],
    rows.map(([color, title, now, most]) => el('tr', { class: now === 0 && 'zero' },
      el('td', {}, swatch(color), title), cell(now ? bytes(now) : '–', true), cell(most ? bytes(most) : '–', true)))
      .concat(el('tr', { class: 'sum' }, cell('all'), cell(bytes(total[0]), true), cell(bytes(total[1]), true))),
    'memory by kind at the cursor');
}
function livingAt(timeline, time) {
  const shown = 40;
  const live = timeline.buffers.filter(buffer => buffer.begin_ms <= time && time < buffer.end_ms);
  live.sort((a, b) => b.bytes - a.bytes);
  const rest = live.slice(shown).reduce((sum, buffer) => sum + buffer.bytes, 0);
  const rows = live.slice(0, shown).map(buffer => el('tr', {},
    el('td', { class: 'name' }, swatch(layers[layerOf.get(buffer.kind) ?? layers.length - 1][0]), buffer.name || buffer.kind),
    cell(bytes(buffer.bytes), true), el('td', { class: 'number wide' }, `${millis(buffer.begin_ms)} to ${millis(buffer.end_ms)}`)));
  if (live.length > shown)
    rows.push(el('tr', { class: 'zero' }, cell(`and ${live.length - shown} smaller`), cell(bytes(rest), true), el('td', { class: 'wide' })));
  if (live.length === 0)
    rows.push(el('tr', { class: 'zero' }, el('td', { colspan: 3 }, 'nothing but what lives through the whole step')));
  return el('div', { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': 'what lives at the cursor', style: 'max-height:21rem' },
    table([['lives at the cursor'], ['bytes', true], ['from … to', true, 'wide']], rows, 'buffers at the cursor'));
}
function doingAt(timeline, time) {
  return lanes.map(([queue]) => {
    const span = timeline.spans.find(one => one.queue === queue && one.begin_ms <= time && time < one.end_ms);
    if (!span) return '';
    const of = span.unit ? ' of ' + span.unit : '';
    if (queue === 'offload') return 'copies to the host';
    if (queue === 'reload') return 'copies from the host';
    if (queue === 'wait' && !span.unit) return 'waits for a copy';
    if (queue === 'axis') return `exchanges along the ${span.phase} axis` + of;
    return queue === 'work' ? (phases.find(([name]) => name === span.phase) || [0, 'work'])[1] + of
      : { wait: 'waits for', gather: 'gathers', reduce: 'reduces', update: 'updates' }[queue] + ' ' + (span.unit || '');
  }).filter(text => text !== '').join(' · ');
}

function stepSection() {
  const timeline = data.timeline;
  if (!timeline || timeline.step_ms <= 0) return null;
  if (!timeline.whole)
    return section('step', 'The step', 'The executable was made by an older compiler, which kept no order of ops: compile it again to see memory and queues over the step.');
  const memory = memoryOver(timeline, data.memory.items);
  const view = { begin: 0, end: timeline.step_ms, cursor: memory.times[memory.peak] };
  const charts = el('div', {}), queues = el('div', {}), tables = el('div', { class: 'beside' });
  const place = el('p', { id: 'at-cursor', style: 'margin-top:2px;min-height:3em' });
  const slider = el('input', { type: 'range', min: 0, max: 1000, step: 1, id: 'cursor', 'aria-label': 'cursor in the step' });
  let frames = [];
  const redrawMemory = drawn(charts, width => {
    frames[0] = memoryChart(memory, view, data.memory.peak_bytes, width);
    return frames[0].node;
  });
  const redrawQueues = drawn(queues, width => {
    frames[1] = queueChart(timeline, view, width);
    queueMicrotask(showCursor);
    return frames[1].node;
  });
  function showCursor() {
    for (const frame of frames.filter(Boolean)) {
      frame.node.querySelector('.cursor')?.remove();
      const at = frame.x(view.cursor);
      frame.node.append(svg('line', { class: 'cursor', x1: at, x2: at, y1: 0, y2: frame.height }));
    }
  }
  function moveTo(time) {
    view.cursor = Math.min(Math.max(time, view.begin), view.begin + (view.end - view.begin) * 0.99999);
    slider.value = Math.round(1000 * (view.cursor - view.begin) / (view.end - view.begin));
    const now = memory.totals[indexAt(memory.times, view.cursor)];
    const doing = doingAt(timeline, view.cursor);
    slider.setAttribute('aria-valuetext', `${millis(view.cursor)}: ${bytes(now)}; ${doing}`);
    place.replaceChildren(el('strong', {}, `${millis(view.cursor)} · ${bytes(now)}`), doing ? ' · ' + doing : '');
    tables.replaceChildren(el('div', {}, kindsAt(memory, view.cursor)), livingAt(timeline, view.cursor));
    showCursor();
  }
  slider.addEventListener('input', () => moveTo(view.begin + slider.value / 1000 * (view.end - view.begin)));
  for (const holder of [charts, queues]) {
    const follow = event => {
      const box = holder.getBoundingClientRect();
      const share = (event.clientX - box.left - margin.left) / (box.width - margin.left - margin.right);
      moveTo(view.begin + Math.min(Math.max(share, 0), 1) * (view.end - view.begin));
    };
    holder.addEventListener('pointerdown', follow);
    holder.addEventListener('pointermove', event => { if (event.buttons) follow(event); });
  }
  const zoom = factor => {
    const length = Math.min(timeline.step_ms, Math.max(timeline.step_ms / 4096, (view.end - view.begin) * factor));
    view.begin = Math.min(Math.max(0, view.cursor - length / 2), timeline.step_ms - length);
    view.end = view.begin + length;
    out.disabled = length >= timeline.step_ms;
    redrawMemory();
    redrawQueues();
    moveTo(view.cursor);
  };
  const out = el('button', { type: 'button', disabled: 'disabled', 'aria-label': 'show more of the step', onclick: () => zoom(4) }, '−');
  const peak = el('button', { type: 'button', id: 'to-peak', onclick: () => { zoom(1e9); moveTo(memory.times[memory.peak]); } }, 'to the peak');
  const controls = el('div', { class: 'controls' }, slider,
    el('button', { type: 'button', id: 'zoom-in', 'aria-label': 'show less of the step, around the cursor', onclick: () => zoom(0.25) }, '+'), out, peak);
  const seen = new Set(timeline.spans.filter(span => span.queue === 'work').map(span => span.phase));
  const legend = el('div', { class: 'legend', 'aria-label': 'colours of work' }, phases.filter(([name]) => seen.has(name)).map(([name, title]) =>
    el('span', {}, swatch(spanColor({ queue: 'work', phase: name })), title)));
  const node = section('step', 'The step',
    `One microbatch and the update, ${millis(timeline.step_ms)} as predicted for ${timeline.device}. The dashed line is what the plan sets aside; what lives is never more.`,
    charts, queues, legend, controls, place, tables);
  moveTo(view.cursor);
  return node;
}
