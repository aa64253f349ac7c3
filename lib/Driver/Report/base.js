// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
'use strict';

// Elements, numbers in words, axes. Text enters the page as text alone: names
// come from a model's file.

const data = JSON.parse(document.getElementById('data').textContent);

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== null && value !== false) node.setAttribute(key, value);
  }
  for (const child of children.flat()) {
    if (child === undefined || child === null || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}
const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) =>
  fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);

function scaled(value, base, words) {
  let at = 0;
  while (at + 1 < words.length && Math.abs(value) >= base * 0.9995) { value /= base; ++at; }
  const digits = at === 0 && Number.isInteger(value) ? 0 : Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toFixed(digits) + (words[at] ? ' ' + words[at] : '');
}
const bytes = value => scaled(value, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']);
const count = value => scaled(value, 1000, ['', 'K', 'M', 'G', 'T', 'P']);
const flops = value => scaled(value, 1000, ['FLOP', 'KFLOP', 'MFLOP', 'GFLOP', 'TFLOP', 'PFLOP', 'EFLOP']);
const rate = value => flops(value) + '/s';
function millis(value) {
  if (value >= 60000) return (value / 60000).toFixed(1) + ' min';
  if (value >= 10000) return (value / 1000).toFixed(1) + ' s';
  if (value >= 1000) return (value / 1000).toFixed(2) + ' s';
  if (value >= 1) return value.toFixed(value >= 10 ? 1 : 2) + ' ms';
  return value === 0 ? '0' : (value * 1000).toFixed(value >= 0.01 ? 0 : 1) + ' µs';
}
const percent = value => (100 * value).toFixed(Math.abs(value) < 0.0995 ? 1 : 0) + ' %';
const plural = (number, word) => number.toLocaleString('en') + ' ' + word + (number === 1 ? '' : 's');

function section(id, title, about, ...children) {
  return el('section', { id, 'aria-labelledby': id + '-title' },
    el('header', {}, el('h2', { id: id + '-title' }, title), about && el('p', { class: 'soft' }, about)), children);
}
function card(name, value, more) {
  return el('div', { class: 'card' }, el('dt', {}, name), el('dd', {}, value, more && el('small', {}, more)));
}
// Columns: [title, isNumber, 'wide' where a narrow page leaves it out].
function table(columns, rows, caption) {
  return el('table', { 'aria-label': caption },
    el('thead', {}, el('tr', {}, columns.map(([title, isNumber, wide]) =>
      el('th', { scope: 'col', class: [isNumber && 'number', wide].filter(Boolean).join(' ') || null }, title)))),
    el('tbody', {}, rows));
}
const cell = (text, isNumber, name) => el('td', { class: isNumber ? 'number' : name ? 'name' : undefined }, text);
const swatch = color => el('span', { class: 'swatch', style: `background:var(--${color})`, 'aria-hidden': 'true' });

// Numbers for an axis up to `most`: 1, 2 or 5 times a power of the base.
function ticks(most, wanted, base = 10) {
  if (!(most > 0)) return [0];
  const power = base === 10 ? Math.pow(10, Math.floor(Math.log10(most / wanted)))
                            : Math.pow(2, Math.floor(Math.log2(most / wanted)));
  const step = (base === 10 ? [1, 2, 5, 10] : [1, 2]).map(f => f * power).find(s => most / s <= wanted) || power * base;
  const list = [];
  for (let value = 0; value <= most * 1.0001; value += step) list.push(value);
  return list;
}

// Draws into `holder` once the page has it, and again when its width changes.
function drawn(holder, draw) {
  let width = 0;
  const redraw = () => { if (width > 0) holder.replaceChildren(...[draw(width)].flat()); };
  const fit = () => {
    if (Math.floor(holder.clientWidth) === width) return;
    width = Math.floor(holder.clientWidth);
    redraw();
  };
  queueMicrotask(fit);
  // Later: what is drawn changes sizes that are being observed.
  new ResizeObserver(() => setTimeout(fit)).observe(holder);
  return redraw;
}
