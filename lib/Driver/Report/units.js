// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Units, who owns what of each, and how long their communication takes.

const ownerColors = ['masters', 'gathered', 'kept', 'forward', 'gradients', 'recomputed', 'reduced', 'backward'];

function ownersBar(unit, ranks) {
  if (unit.layout !== 'sharded')
    return el('div', { class: 'owners', role: 'img', 'aria-label': 'whole on every rank' },
      el('i', { style: 'flex:1;background:var(--other)' }));
  if (ranks > unit.owned.length)
    return el('div', { class: 'owners many', role: 'img', 'aria-label': `shared by ${plural(ranks, 'rank')}` });
  const parts = unit.owned.filter(one => one.end > one.begin).map(one =>
    el('i', { style: `flex:${one.end - one.begin};background:var(--${ownerColors[one.rank % ownerColors.length]})`,
      title: `rank ${one.rank}: ${one.begin}..${one.end}` }));
  return el('div', { class: 'owners', role: 'img', 'aria-label': `shared by ${plural(ranks, 'rank')}` }, parts);
}

function paramsOf(unit) {
  const shown = 400;
  const rows = unit.params.slice(0, shown).map(param => el('tr', {},
    cell(param.name, false, true), cell(param.shape.join(' × '), true), cell(count(param.elements), true),
    cell(param.trainable ? '' : 'frozen'),
    cell(param.owned.slice(0, 8).map(one => `${one.rank}: ${one.begin}..${one.end}`).join('  ') + (param.owned.length > 8 ? ' …' : ''))));
  const all = unit.params.length;
  return [table([['parameter'], ['shape', true], ['elements', true], [''], ['rank: its elements']], rows, 'parameters of ' + unit.name),
    all > shown && el('p', { class: 'note' }, `${all - shown} more are not shown.`)];
}

function policyOf(unit) {
  const words = [unit.param_dtype + (unit.reduce_dtype !== unit.param_dtype ? ', reduced in ' + unit.reduce_dtype : '')];
  words.push(unit.layout === 'replicated' ? 'whole on every rank' : unit.kept ? 'gathered once a step'
    : unit.reshard_after_forward ? 'freed after forward' + (unit.reshard_group ? `, kept in parts by ${unit.reshard_group} ranks` : '') : 'gathered until backward is done');
  for (const [key, value] of Object.entries(unit.policy)) words.push(`${key} ${value}`);
  return words.join(' · ');
}

function unitRows(unit, depth, wait, measured, most) {
  const inner = el('tr', { class: 'inner', hidden: 'hidden' });
  const toggle = el('button', { type: 'button', class: 'unit', 'aria-expanded': 'false', style: `margin-left:${depth * 14}px`,
    onclick: () => {
      const open = inner.hidden;
      if (open && !inner.firstChild)
        inner.append(el('td', { colspan: measured ? 9 : 8 }, el('p', { class: 'note' }, policyOf(unit)), paramsOf(unit)));
      inner.hidden = !open;
      toggle.setAttribute('aria-expanded', String(open));
    } }, unit.name);
  const share = most > 0 ? unit.flops / most : 0;
  return [el('tr', { 'data-unit': unit.name }, el('td', { class: 'name' }, toggle),
    el('td', {}, ownersBar(unit, data.memory.ranks)),
    cell(count(unit.trainable + unit.frozen), true), cell(bytes(unit.gathered_bytes), true),
    cell(unit.flops ? percent(share) : '–', true),
    cell(wait && wait.gather_ms ? millis(wait.gather_ms) : '–', true), cell(wait && wait.reduce_ms ? millis(wait.reduce_ms) : '–', true),
    cell(wait && wait.exposed_ms ? millis(wait.exposed_ms) : '–', true),
    measured && cell(wait && wait.measured_exposed_ms !== undefined ? millis(wait.measured_exposed_ms) : '–', true)), inner];
}

function unitsSection() {
  const waits = new Map(data.communication.units.map(unit => [unit.name, unit]));
  const parents = new Map(data.units.map(unit => [unit.name, unit.inside]));
  const depthOf = name => { let depth = 0; for (let at = parents.get(name); at !== undefined && depth < 8; at = parents.get(at)) ++depth; return depth; };
  const measured = data.communication.measured_exposed_ms !== undefined;
  const flopsOfAll = data.units.reduce((sum, unit) => sum + unit.flops, 0);
  const children = new Map();
  for (const unit of data.units) {
    const list = children.get(unit.inside) || [];
    list.push(unit);
    children.set(unit.inside, list);
  }
  const ordered = [];
  const visit = name => { for (const unit of children.get(name) || []) { ordered.push(unit); if (unit.name !== name) visit(unit.name); } };
  visit(undefined);
  const rows = ordered.flatMap(unit => unitRows(unit, depthOf(unit.name), waits.get(unit.name), measured, flopsOfAll));
  const all = data.communication;
  rows.push(el('tr', { class: 'sum' }, cell('all units'), cell(''), cell(count(data.units.reduce((s, u) => s + u.trainable + u.frozen, 0)), true),
    cell(bytes(data.units.reduce((s, u) => s + u.gathered_bytes, 0)), true), cell(''), cell(''), cell(''), cell(millis(all.exposed_ms), true),
    measured && cell(millis(all.measured_exposed_ms), true)));
  const columns = [['unit'], ['who owns it'], ['parameters', true], ['gathered', true], ['FLOPs', true], ['gather', true], ['reduce', true], ['exposed', true]];
  if (measured) columns.push(['measured', true]);
  const out = data.left_out || {}, byAxis = Object.entries(all.exposed_by_axis_ms).filter(([, time]) => time > 0);
  return section('units', 'Units',
    `${plural(data.units.length, 'unit')} on ${plural(data.memory.ranks, 'rank')}; a unit opens to its parameters. Times are of a step: exposed is what the work waits.`,
    el('div', { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': 'units' }, table(columns, rows, 'units')),
    data.mesh && byAxis.length > 0 && el('p', { class: 'note', id: 'by-axis' },
      'Exposed by axis of the mesh: ' + byAxis.map(([axis, time]) => `${axis} ${millis(time)}`).join(', ') + '.'),
    (out.ranks > 0 || out.params > 0) && el('p', { class: 'note', id: 'left-out' }, 'Left out so that the page opens at once: '
      + [out.ranks > 0 && `what ${plural(out.ranks, 'rank')} more own`, out.params > 0 && plural(out.params, 'parameter')].filter(Boolean).join(', ')
      + '; shardonnx inspect --json has them.'));
}
