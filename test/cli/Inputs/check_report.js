// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a reader does with the page of `inspect --html`, and what must be there.

const check = (truth, what) => { if (!truth) throw new Error(what + ' at ' + innerWidth + ' px'); };
const one = selector => { const found = document.querySelector(selector); check(found, 'no ' + selector); return found; };

for (const id of ['step', 'units', 'roofline']) one('section#' + id + ' h2');
check(document.title.includes('Shardonnx'), 'title');
check(document.documentElement.scrollWidth <= innerWidth, 'wider than the window: ' + document.documentElement.scrollWidth);
check(document.querySelectorAll('#memory-chart path[data-layer]').length >= 5, 'layers of memory');
for (const queue of ['work', 'gather', 'reduce']) one(`#queue-chart rect[data-queue=${queue}]`);
check(document.querySelectorAll('#roofline-chart circle').length > 5, 'launches');
check(document.querySelectorAll('tr[data-unit]').length === data.units.length, 'units');

// The cursor begins at the peak, and the tables say what the data does there.
const slider = one('#cursor');
const sum = () => document.querySelector('#step tr.sum').children;
check(sum()[1].textContent === sum()[2].textContent, 'the cursor is not at the peak');
const before = one('#at-cursor').textContent;
slider.value = 20;
slider.dispatchEvent(new Event('input'));
check(one('#at-cursor').textContent !== before, 'the cursor does not move');
check(slider.getAttribute('aria-valuetext').includes('forward'), 'what the cursor says: ' + slider.getAttribute('aria-valuetext'));
check(document.querySelectorAll('svg .cursor').length === 2, 'cursors');
one('#zoom-in').click();
one('#to-peak').click();
check(one('#at-cursor').textContent === before, 'back at the peak');

// A unit opens to its parameters, by click or key.
const toggle = one('tr[data-unit] button');
toggle.click();
check(toggle.getAttribute('aria-expanded') === 'true', 'a unit does not open');
const inner = toggle.closest('tr').nextSibling;
check(!inner.hidden && inner.querySelectorAll(':scope tbody tr').length === Math.min(400, data.units.find(u => u.name === toggle.textContent).params.length), 'parameters');

// Everything that can be used has a name, and can be reached by keyboard.
for (const node of document.querySelectorAll('button, input, [tabindex]'))
  check(node.tabIndex >= 0 && (node.getAttribute('aria-label') || node.textContent.trim()), 'no name: ' + node.outerHTML.slice(0, 80));
for (const chart of document.querySelectorAll('svg[role=img]')) check(chart.getAttribute('aria-label'), 'a chart without a name');

// Text can be told from what is behind it.
const light = text => { const [r, g, b] = text.match(/[0-9.]+/g).map(Number).map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const panel = light(getComputedStyle(one('section')).backgroundColor);
for (const selector of ['section h2', 'section .soft', 'td', 'th']) {
  const ink = light(getComputedStyle(one(selector)).color);
  check((Math.max(ink, panel) + 0.05) / (Math.min(ink, panel) + 0.05) >= 4.5, 'contrast of ' + selector);
}
check((panel < 0.2) === matchMedia('(prefers-color-scheme: dark)').matches, 'colours of the scheme');
