// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The strategies of a plan, compared.

const planColors = ['masters', 'optimizer', 'reduced', 'gathered', 'gradients', 'kept', 'forward', 'recomputed', 'backward', 'update', 'other'];
const planName = plan => [plan.strategy, plan.recompute && plan.recompute !== 'none' && 'recompute ' + plan.recompute, plan.mesh].filter(Boolean).join(', ');

// One bar a plan: `parts` are [color, value, title]; `limit` is a line across.
function planBars(id, about, rows, limit, limitWord, format, width) {
  const row = 44, left = 2, right = 2, top = limit ? 20 : 4;
  const most = Math.max(...rows.map(one => one.parts.reduce((sum, part) => sum + part[1], 0)), limit || 0) * 1.02 || 1;
  const height = top + rows.length * row;
  const x = value => left + value / most * (width - left - right);
  const parts = [];
  rows.forEach((one, index) => {
    const at = top + index * row;
    let begin = 0;
    const sum = one.parts.reduce((all, part) => all + part[1], 0);
    parts.push(svg('text', { class: one.chosen ? 'label' : undefined, x: left, y: at + 13, 'font-weight': one.chosen ? 700 : 400 }, `${one.name}: ${format(sum)}${one.more || ''}`));
    for (const [color, value, title] of one.parts) {
      if (value <= 0) continue;
      parts.push(svg('rect', { x: x(begin), y: at + 19, width: Math.max(0.5, x(begin + value) - x(begin)), height: 16, fill: `var(--${color})`,
        'fill-opacity': one.pale ? 0.45 : 1 }, svg('title', {}, `${title}: ${format(value)}`)));
      begin += value;
    }
  });
  if (limit)
    parts.push(svg('line', { class: 'limit', x1: x(limit), x2: x(limit), y1: 16, y2: height }),
      svg('text', { class: 'label', x: x(limit) > width / 2 ? x(limit) - 4 : x(limit) + 4, y: 12, 'text-anchor': x(limit) > width / 2 ? 'end' : 'start' }, limitWord));
  return svg('svg', { viewBox: `0 0 ${width} ${height}`, height, role: 'img', id, 'aria-label': about }, parts);
}

function planTable(plans) {
  const priced = plans.some(plan => plan.cost !== undefined && plan.cost !== null), timed = plans.some(plan => plan.hours);
  const columns = [['strategy'], ['memory of a rank', true], ['step', true], ['exposed', true], ['tokens/s a GPU', true], ['MFU', true]];
  if (timed) columns.push(['hours', true]);
  if (priced) columns.push(['cost', true]);
  columns.push(['']);
  const money = value => value === undefined || value === null ? '–' : value.toLocaleString('en', { maximumFractionDigits: value < 100 ? 2 : 0 });
  return el('div', { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': 'plans' }, table(columns, plans.map((plan, index) =>
    el('tr', { class: index === data.chosen ? 'chosen' : !plan.fits && 'zero' }, el('td', { class: 'name' }, planName(plan)),
      cell(bytes(plan.memory_bytes), true), cell(millis(plan.step_ms), true), cell(millis(plan.exposed_ms), true),
      cell(Math.round(plan.tokens_per_s_per_gpu).toLocaleString('en'), true), cell(plan.mfu === null || plan.mfu === undefined ? '–' : percent(plan.mfu), true),
      timed && cell(money(plan.hours), true), priced && cell(money(plan.cost), true),
      cell(index === data.chosen ? 'to take' : plan.fits ? '' : 'does not fit'))), 'plans'));
}

function plansPage() {
  const plans = data.plans, chosen = plans[data.chosen];
  document.title = (data.name || 'plan') + ' · Shardonnx';
  const about = [data.gpus && plural(data.gpus, 'rank'), data.device && 'of ' + data.device, data.tokens && count(data.tokens) + ' tokens'].filter(Boolean).join(' ');
  const kinds = [...new Set(plans.flatMap(plan => Object.keys(plan.memory || {})))];
  const color = kind => layerOf.has(kind) ? layers[layerOf.get(kind)][0] : planColors[kinds.indexOf(kind) % planColors.length];
  const chart = (...given) => { const holder = el('div', {}); drawn(holder, width => planBars(...given, width)); return holder; };
  const row = (plan, index, parts) => ({ name: planName(plan), chosen: index === data.chosen, pale: !plan.fits, more: plan.fits ? '' : ' (does not fit)', parts });
  const limit = data.memory_limit_bytes || data.device_memory_bytes;
  return [el('header', {}, el('h1', {}, data.name || 'Plan'), el('p', { class: 'soft' }, about)),
    chosen && el('dl', { class: 'cards' }, card('to take', planName(chosen)), card('memory of a rank', bytes(chosen.memory_bytes), limit && 'of ' + bytes(limit)),
      card('step', millis(chosen.step_ms), 'predicted'), card('speed of a GPU', count(chosen.tokens_per_s_per_gpu), 'tokens a second'),
      chosen.hours !== undefined && chosen.hours !== null && card('time', chosen.hours.toFixed(1) + ' h', chosen.cost ? `cost ${chosen.cost.toFixed(0)}` : undefined)),
    data.command && section('command', 'The command', data.why || data.reason, el('p', {}, el('code', {}, data.command))),
    section('plans', 'Strategies', chosen ? undefined : 'Nothing fits.', planTable(plans)),
    section('plan-memory', 'Memory of a rank', 'By what it is for, against what the device has.',
      chart('plan-memory-chart', 'memory of a rank by strategy; the table above has the sums',
        plans.map((plan, index) => row(plan, index, kinds.map(kind => [color(kind), (plan.memory || {})[kind] || 0, kind]))), limit, limit ? `${bytes(limit)} of the device` : '', bytes),
      el('div', { class: 'legend' }, kinds.map(kind => el('span', {}, swatch(color(kind)), kind)))),
    section('plan-time', 'Time of a step', 'Work, and waits for collectives.',
      chart('plan-time-chart', 'time of a step by strategy; the table above has the sums',
        plans.map((plan, index) => row(plan, index, [['masters', plan.step_ms - plan.exposed_ms, 'work'], ['wait', plan.exposed_ms, 'exposed']])), undefined, '', millis),
      el('div', { class: 'legend' }, el('span', {}, swatch('masters'), 'work'), el('span', {}, swatch('wait'), 'exposed communication')))].filter(Boolean);
}
