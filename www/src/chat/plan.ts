// What a model would take, before it is downloaded.
import { get } from '../shared/dom.ts';
import { bytes, define, parameters, sentence } from '../shared/format.ts';
import type { LoadState } from './loader.ts';

/** Fills in a plan, and the contexts that may be chosen instead of its own. */
export function fill({ plan, model }: LoadState & { phase: 'plan' }, contexts: HTMLSelectElement): void {
  const { download, memory, storage, problems, alternatives } = plan;
  get('plan-title').textContent = model.name;
  const types = Object.entries(plan.model.types).sort((a, b) => b[1] - a[1]);
  const kept =
    storage.kind === 'opfs'
      ? storage.available === null
        ? 'kept in this browser'
        : `${bytes(storage.available)} free`
      : (storage.reason ?? 'not kept');
  define(get('plan-facts'), [
    [
      'Model',
      `${plan.model.architecture}, ${parameters(plan.model.parameters)} parameters, ${types
        .map(([type]) => type)
        .slice(0, 2)
        .join(' and ')}`,
    ],
    [
      'Download',
      download.stored > 0
        ? `${bytes(download.missing)} of ${bytes(download.total)}: ${bytes(download.stored)} are here`
        : bytes(download.total),
    ],
    ...(plan.draft
      ? [
          [
            'Draft model',
            `${plan.draft.model.architecture}, ${parameters(plan.draft.model.parameters)} parameters, ${bytes(plan.draft.download.missing)} to download`,
          ] as [string, string],
        ]
      : []),
    ['Storage', kept],
    [
      'GPU memory',
      `${bytes(memory.total)}: ${memory.draft > 0 ? `draft model ${bytes(memory.draft)}, ` : ''}weights ${bytes(memory.weights)}, cache of ${plan.context.toLocaleString('en')} tokens ${bytes(memory.kv)}, ${memory.encoder > 0 ? `for pictures ${bytes(memory.encoder)}, ` : ''}rest ${bytes(memory.activations)}`,
    ],
  ]);
  const verdict = get('plan-verdict');
  const instead = alternatives
    .map(({ context, kv, total }) => `a context of ${context.toLocaleString('en')} with ${kv} (${bytes(total)})`)
    .join(', or ');
  verdict.textContent = plan.fits
    ? 'It fits, as far as this browser can tell.'
    : `${problems.map(sentence).join('. ')}.${instead ? ` What would fit: ${instead}.` : ''}`;
  verdict.className = plan.fits ? '' : 'error';
  get('plan-go').textContent = plan.fits
    ? download.stored > 0
      ? 'Download the rest'
      : 'Download'
    : 'Try all the same';
  const sizes = [
    ...new Set([
      2048,
      4096,
      8192,
      16384,
      32768,
      65536,
      131072,
      plan.context,
      ...alternatives.map(({ context }) => context),
    ]),
  ]
    .filter((size) => size <= plan.model.context || size === plan.context)
    .sort((a, b) => a - b);
  contexts.replaceChildren(
    ...sizes.map(
      (size) => new Option(`${size.toLocaleString('en')} tokens`, String(size), false, size === plan.context),
    ),
  );
}
