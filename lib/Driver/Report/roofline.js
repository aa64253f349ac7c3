// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Kernels and products against what the device can do: FLOPs for a byte across,
// FLOPs in a second up, as large as the time they take. What multiplies nothing
// has a strip of its own.

const launchColor = kind => ({ product: 'masters', attention: 'gathered', loss: 'reduced', elementwise: 'gradients', 'column sums': 'forward',
  embedding: 'kept', copy: 'other' })[kind] || 'backward';

function rooflineChart(roofline, width) {
  const height = width < 500 ? 240 : 320, left = 78, right = 12, bottom = 34, strip = width < 500 ? 54 : 90;
  const products = roofline.launches.filter(one => one.flops > 0 && one.bytes > 0 && one.ms > 0);
  const others = roofline.launches.filter(one => one.flops === 0 && one.ms > 0);
  const ridge = roofline.flops_per_s / roofline.bytes_per_s;
  const xs = products.map(one => one.flops / one.bytes).concat(ridge);
  const speed = one => one.count * one.flops / (one.ms / 1000);
  const low = Math.floor(Math.log10(Math.min(...xs))), high = Math.ceil(Math.log10(Math.max(...xs)) + 0.05);
  const top = Math.log10(roofline.flops_per_s) + 0.25;
  const floor = Math.min(Math.floor(Math.log10(Math.min(...products.map(speed), roofline.flops_per_s / 100))), top - 1);
  const begin = left + strip;
  const x = value => begin + (Math.log10(value) - low) / (high - low) * (width - begin - right);
  const y = value => 6 + (height - 6) * (top - Math.log10(value)) / (top - floor);
  const all = roofline.launches.reduce((sum, one) => sum + one.ms, 0);
  const radius = one => Math.max(2, Math.sqrt(one.ms / all) * (width < 500 ? 26 : 40));
  const parts = [];
  for (let power = low; power <= high; ++power)
    parts.push(svg('line', { class: 'axis', x1: x(10 ** power), x2: x(10 ** power), y1: 6, y2: height }),
      svg('text', { x: x(10 ** power), y: height + 14, 'text-anchor': power === high ? 'end' : 'middle' }, power < 0 ? (10 ** power).toFixed(-power) : (10 ** power).toLocaleString('en')));
  for (let power = Math.ceil(floor); power <= top; ++power)
    parts.push(svg('line', { class: 'axis', x1: left, x2: width - right, y1: y(10 ** power), y2: y(10 ** power) }),
      svg('text', { x: left - 6, y: y(10 ** power) + 4, 'text-anchor': 'end' }, rate(10 ** power).replace(/\.0+ /, ' ')));
  const knee = Math.max(10 ** low, 10 ** floor / roofline.bytes_per_s);
  parts.push(svg('polyline', { class: 'limit', points: `${x(knee)},${y(knee * roofline.bytes_per_s)} ${x(ridge)},${y(roofline.flops_per_s)} ${width - right},${y(roofline.flops_per_s)}` }),
    svg('text', { x: (begin + width - right) / 2, y: height + 30, 'text-anchor': 'middle' }, 'FLOPs for each byte moved'),
    svg('text', { x: left + strip / 2, y: height + 14, 'text-anchor': 'middle' }, 'none'));
  for (const one of products)
    parts.push(svg('circle', { cx: x(one.flops / one.bytes), cy: y(speed(one)), r: radius(one), fill: `var(--${launchColor(one.kind)})`, 'fill-opacity': 0.7,
      stroke: 'var(--panel)' }, svg('title', {}, `${one.name}: ${millis(one.ms)}`)));
  others.forEach((one, index) => parts.push(svg('circle', { cx: left + strip / 2, cy: 24 + (height - 48) * (others.length > 1 ? index / (others.length - 1) : 0.5), r: radius(one),
    fill: `var(--${launchColor(one.kind)})`, 'fill-opacity': 0.55, stroke: 'var(--panel)' }, svg('title', {}, `${one.name}: ${millis(one.ms)}`))));
  return svg('svg', { viewBox: `0 0 ${width} ${height + 36}`, height: height + 36, role: 'img', id: 'roofline-chart',
    'aria-label': `Kernels and products against ${roofline.device}: ${rate(roofline.flops_per_s)} in products, ${bytes(roofline.bytes_per_s)} a second of memory; the table below has the numbers` }, parts);
}

function rooflineSection() {
  const roofline = data.roofline;
  if (!roofline || roofline.launches.length === 0) return null;
  const shown = 60;
  const all = roofline.launches.reduce((sum, one) => sum + one.ms, 0);
  const kinds = [...new Set(roofline.launches.map(one => one.kind))];
  const chart = el('div', {});
  drawn(chart, width => rooflineChart(roofline, width));
  const rows = roofline.launches.slice(0, shown).map(one => {
    const byMemory = one.bytes / roofline.bytes_per_s > one.flops / roofline.flops_per_s;
    return el('tr', {}, el('td', { class: 'name' }, swatch(launchColor(one.kind)), one.name), cell(one.kind), cell(one.count.toLocaleString('en'), true),
      cell(one.flops ? flops(one.flops) : '–', true), cell(bytes(one.bytes), true), cell(millis(one.ms), true), cell(percent(one.ms / all), true),
      cell(byMemory ? 'memory' : 'products'));
  });
  const more = roofline.launches.length - shown + roofline.left_out;
  return section('roofline', 'Kernels and products',
    `What a step launches, as predicted for ${roofline.device}: ${rate(roofline.flops_per_s)} in products, ${bytes(roofline.bytes_per_s)} a second of memory. The larger, the longer it takes.`,
    chart, el('div', { class: 'legend' }, kinds.map(kind => el('span', {}, swatch(launchColor(kind)), kind))),
    el('div', { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': 'launches', style: 'max-height:22rem' },
      table([['launch'], ['kind'], ['count', true], ['FLOPs of one', true], ['bytes of one', true], ['all', true], ['share', true], ['bound by']], rows, 'launches, the longest first')),
    more > 0 && el('p', { class: 'note' }, `${plural(more, 'other launch').replace(/launchs$/, 'launches')} take less and are not in the table.`));
}
