// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The page of a program.

function headOf() {
  const words = [data.strategy, plural(data.memory.ranks, 'rank') + (data.memory.replicas > 1 ? ` in ${data.memory.replicas} replicas` : ''),
    `batch ${data.batch}` + (data.seq ? ` × ${data.seq}` : '') + ' per rank', data.param_dtype + ' parameters', data.reduce_dtype + ' gradients', data.optimizer,
    data.target + (data.arch ? ' ' + data.arch : '')];
  document.title = data.name + ' · Shardonnx';
  return el('header', {}, el('h1', {}, data.name), el('p', { class: 'soft' }, words.join(' · ')),
    el('p', { class: 'note' }, data.model, ' · Shardonnx ', data.version));
}

function cardsOf() {
  const memory = data.memory, waits = data.communication;
  const trainable = data.units.reduce((sum, unit) => sum + unit.trainable, 0);
  const frozen = data.units.reduce((sum, unit) => sum + unit.frozen, 0);
  const run = data.run && median(data.run.points.map(point => point.step_ms).filter(value => value !== undefined));
  return el('dl', { class: 'cards' },
    card('memory of a rank', bytes(memory.peak_bytes), memory.run_measured_bytes !== undefined ? bytes(memory.run_measured_bytes) + ' measured'
      : memory.offloaded_bytes ? bytes(memory.offloaded_bytes) + ' more offloaded' : 'planned peak'),
    card('step', millis(waits.step_ms), run ? millis(run) + ' measured' : 'predicted for ' + waits.device),
    card('exposed communication', millis(waits.exposed_ms), waits.measured_exposed_ms !== undefined ? millis(waits.measured_exposed_ms) + ' measured'
      : percent(waits.step_ms > 0 ? waits.exposed_ms / waits.step_ms : 0) + ' of the step'),
    card('speed of a rank', waits.step_ms > 0 ? count(waits.tokens_per_s) : '–', (data.seq ? 'tokens' : 'samples') + ' a second, predicted'),
    card('parameters', count(trainable + frozen), frozen ? count(frozen) + ' of them frozen' : flops(data.flops_per_microbatch) + ' a microbatch'));
}

const page = document.getElementById('page');
if (data.plans)
  page.append(...plansPage());
else
  page.append(...[headOf(), cardsOf(), runSection(), stepSection(), unitsSection(), rooflineSection()].filter(Boolean));
