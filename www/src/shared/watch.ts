// The card with a page's current work and its errors.
import { explain } from './explain.ts';
import { get } from './dom.ts';
import { failureOf, needsGpu, type Failure } from './bench.ts';

const card = get('watch');
const status = get('status');
const live = get('live');
const progress = get<HTMLProgressElement>('progress');
const problem = get('problem');
const advice = get('advice');

/**
 * Shows progress. `text` is read out, so it should change seldom; `detail` is not. Without `total` the amount is
 * unknown.
 */
export function busy(text: string, detail = '', done = 0, total = 0): void {
  look('', true);
  if (status.textContent !== text) status.textContent = text;
  live.textContent = detail;
  if (total > 0) {
    progress.max = total;
    progress.value = done;
  } else progress.removeAttribute('value');
}

/** Shows the end of the work. */
export function done(text: string, good = true): void {
  look(good ? 'pass' : 'fail', false);
  status.textContent = text;
}

/** Shows a failure, explained and with advice. */
export function failed(reason: Failure, help: Parameters<typeof explain>[1]): void {
  const explanation = explain(reason, help);
  look('fail', false);
  card.className = 'card error';
  problem.textContent = explanation.title;
  status.textContent = `${reason.code}: ${reason.message}`;
  advice.textContent = explanation.advice;
  problem.hidden = false;
  advice.hidden = explanation.advice === '';
}

/** Shows an error and disables the button where there is no WebGPU. */
export function unlessGpu(button: HTMLButtonElement, help: Parameters<typeof explain>[1]): void {
  try {
    needsGpu();
  } catch (error) {
    failed(failureOf(error), help);
    button.disabled = true;
  }
}

/** Adds a remark to the status. */
export function remark(text: string): void {
  status.textContent += ` (${text})`;
}

function look(className: string, working: boolean): void {
  card.hidden = false;
  card.className = 'card';
  status.className = className;
  progress.hidden = !working;
  problem.hidden = true;
  advice.hidden = true;
  live.textContent = '';
}
