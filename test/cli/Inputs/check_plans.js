// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What must be in the page of `plan --html`.

const check = (truth, what) => { if (!truth) throw new Error(what + ' at ' + innerWidth + ' px'); };
const one = selector => { const found = document.querySelector(selector); check(found, 'no ' + selector); return found; };

check(document.title.includes('plan'), 'title');
check(document.documentElement.scrollWidth <= innerWidth, 'wider than the window: ' + document.documentElement.scrollWidth);
const rows = document.querySelectorAll('#plans tbody tr');
check(rows.length === data.plans.length && rows.length > 2, 'plans');
check(one('#plans tr.chosen').textContent.startsWith(data.plans[data.chosen].strategy), 'the chosen one');
check(one('#command code').textContent === data.command, 'the command');
check(one('#command').textContent.includes(data.why), 'why');
check(document.querySelectorAll('#plan-memory-chart rect').length > data.plans.length, 'memory by kind');
check(document.querySelectorAll('#plan-time-chart rect').length >= data.plans.length, 'time');
one('#plan-memory-chart .limit');
for (const plan of data.plans) check(one('#plan-time-chart').textContent.includes(plan.strategy), plan.strategy);
