// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The strategies of a plan, compared.

const planName = plan => [plan.strategy, plan.recompute !== 'none' && 'recompute ' + plan.recompute, plan.offload !== 'none' && 'offload ' + plan.offload, plan.offload_activations && 'offload activations', ...plan.mesh.split(',').slice(2)]
  .filter(Boolean).join(', ');

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

function planTable(plans, chosen) {
  const priced = plans.some(plan => plan.cost !== undefined && plan.cost !== null), timed = plans.some(plan => plan.hours);
  const columns = [['strategy'], ['mesh'], ['batch', true], ['memory of a rank', true], ['step', true], ['exposed', true], ['tokens/s a GPU', true], ['MFU', true]];
  if (timed) columns.push(['hours', true]);
  if (priced) columns.push(['cost', true]);
  columns.push(['']);
  const money = value => value === undefined || value === null ? '–' : value.toLocaleString('en', { maximumFractionDigits: value < 100 ? 2 : 0 });
  return el('div', { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': 'plans' }, table(columns, plans.map((plan, index) =>
    el('tr', { class: index === chosen ? 'chosen' : !plan.fits && 'zero' }, el('td', { class: 'name' }, planName(plan)),
      cell(plan.mesh), cell(plan.batch + (plan.accumulate > 1 ? ' × ' + plan.accumulate : ''), true),
      cell(bytes(plan.memory_bytes), true), cell(millis(plan.step_ms), true), cell(millis(plan.exposed_ms), true),
      cell(Math.round(plan.tokens_per_s_per_gpu).toLocaleString('en'), true), cell(plan.mfu === null || plan.mfu === undefined ? '–' : percent(plan.mfu), true),
      timed && cell(money(plan.hours), true), priced && cell(money(plan.cost), true),
      cell(index === chosen ? 'to take' : plan.fits ? '' : 'does not fit'))), 'plans'));
}

function plansPage() {
  const plans = data.plans, chosen = plans[data.chosen];
  const name = data.model.replace(/^.*\//, '');
  document.title = name + ' · Shardonnx plan';
  const first = chosen || plans[0];
  const about = [`${plural(data.gpus, 'rank')} of ${data.device}`, data.gpus_per_node < data.gpus && `${data.gpus_per_node} a machine`,
    `batch ${first.batch} per rank and microbatch`, plural(first.accumulate, 'microbatch').replace(/microbatchs$/, 'microbatches') + ' a step', data.param_dtype + ' parameters'].filter(Boolean).join(' · ');
  const kinds = [...new Set(plans.flatMap(plan => Object.keys(plan.memory).filter(kind => plan.memory[kind] > 0)))];
  const color = kind => kind.startsWith('activations and ') ? 'kept' : layers[layerOf.has(kind) ? layerOf.get(kind) : 3][0];
  const chart = (...given) => { const holder = el('div', {}); drawn(holder, width => planBars(...given, width)); return holder; };
  const row = (plan, index, parts) => ({ name: planName(plan), chosen: index === data.chosen, pale: !plan.fits, more: plan.fits ? '' : ' (does not fit)', parts });
  const limit = data.memory_limit_bytes;
  return [el('header', {}, el('h1', {}, name), el('p', { class: 'soft' }, about)),
    chosen && el('dl', { class: 'cards' }, card('to take', planName(chosen)), card('memory of a rank', bytes(chosen.memory_bytes), limit && 'of ' + bytes(limit)),
      card('step', millis(chosen.step_ms), 'predicted'), card('speed of a GPU', count(chosen.tokens_per_s_per_gpu), 'tokens a second'),
      chosen.hours !== undefined && chosen.hours !== null && card('training', chosen.hours.toFixed(1) + ' h', chosen.cost ? `cost ${Math.round(chosen.cost).toLocaleString('en')}` : undefined)),
    section('command', chosen ? 'What to take' : 'Nothing fits', data.why, chosen && el('p', {}, el('code', {}, data.command)),
      data.remedies.length > 0 && planTable(data.remedies)),
    section('plans', 'Strategies', undefined, planTable(plans, data.chosen)),
    section('plan-memory', 'Memory of a rank', 'By what it is for, against what the device has.',
      chart('plan-memory-chart', 'memory of a rank by strategy; the table above has the sums',
        plans.map((plan, index) => row(plan, index, kinds.map(kind => [color(kind), plan.memory[kind] || 0, kind]).concat([['free', plan.headroom_bytes, 'must be free beside it']]))), limit, `${bytes(limit)} a rank may take`, bytes),
      el('div', { class: 'legend' }, kinds.map(kind => el('span', {}, swatch(color(kind)), kind)),
        plans.some(plan => plan.headroom_bytes > 0) && el('span', {}, swatch('free'), 'must be free beside it'))),
    section('plan-time', 'Time of a step', 'Work, and waits for collectives.',
      chart('plan-time-chart', 'time of a step by strategy; the table above has the sums',
        plans.map((plan, index) => row(plan, index, [['masters', plan.step_ms - plan.exposed_ms, 'work'], ['wait', plan.exposed_ms, 'exposed']])), undefined, '', millis),
      el('div', { class: 'legend' }, el('span', {}, swatch('masters'), 'work'), el('span', {}, swatch('wait'), 'exposed communication')))].filter(Boolean);
}
