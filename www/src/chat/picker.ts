// The dialog that chooses a model: stored ones, well-known ones with a verdict whether they fit, an address, files.
// Loaded when it is first opened.
import { models, type StoredModel } from 'millrace';
import { closeOutside } from '../shared/dialog.ts';
import { get } from '../shared/dom.ts';
import { bytes } from '../shared/format.ts';
import { type Device, lookAtDevice, verdict } from '../shared/fit.ts';
import { nameOf } from '../shared/embedders.ts';
import { KNOWN, storedAs } from '../shared/known.ts';
import { BOX, BOX_TEXT } from '../shared/model_name.ts';
import { fromFiles, fromUrl, type Model } from './loader.ts';

const dialog = get<HTMLDialogElement>('models');
const field = get<HTMLInputElement>('model-url');

/** Bytes of the bundled model, with what reads pictures for it. */
const BOX_BYTES = 12_130_112 + 7_107_936;

/** The model in use, as its address; null for files. */
type Current = () => string | null;

let current: Current;
let choose: (model: Model) => void;

export function setUp(now: Current, onChoose: (model: Model) => void): void {
  current = now;
  choose = (model) => {
    dialog.close();
    onChoose(model);
  };
  get('model-url-form').addEventListener('submit', (event) => {
    event.preventDefault();
    const url = field.value.trim();
    if (url !== '') choose(fromUrl(url));
  });
  get<HTMLInputElement>('model-files').addEventListener('change', ({ target }) => {
    const { files } = target as HTMLInputElement;
    if (files?.length) choose(fromFiles([...files]));
    (target as HTMLInputElement).value = '';
  });
  closeOutside(dialog);
}

export function open(): void {
  const url = current();
  field.value = url && url !== BOX && !KNOWN.some((model) => model.url === url) ? url : '';
  fill(null, []);
  dialog.showModal();
  field.focus();
  void Promise.all([lookAtDevice(), models.list().catch(() => [])]).then(([device, stored]) => fill(device, stored));
}

interface Row {
  url: string;
  name: string;
  about: string;
  size: string;
  badge: string;
  level: string;
}

/** `device` is null until it is known. */
function fill(device: Device | null, stored: readonly StoredModel[]): void {
  get('device').textContent = device === null ? 'Looking at this machine…' : aboutDevice(device);
  const here = new Map(stored.map((model) => [model.url, model]));
  const box = new URL(BOX_TEXT, location.href).href;
  const rows: Row[] = [
    {
      url: BOX,
      name: 'The model in the box',
      about: 'tiny: sums, spelling, reads simple pictures',
      size: bytes(BOX_BYTES),
      badge: 'fits',
      level: 'good',
    },
  ];
  for (const model of stored) {
    if (model.url === box || KNOWN.some(({ url }) => storedAs(url) === model.url)) continue;
    const part = model.total ? `${Math.floor((100 * model.bytes) / model.total)} % here` : 'in part here';
    rows.push({
      url: model.url,
      name: nameOf(model.url),
      about: new URL(model.url).host,
      size: bytes(model.total ?? model.bytes),
      badge: model.complete ? 'downloaded' : part,
      level: model.complete ? 'good' : 'slow',
    });
  }
  for (const known of KNOWN) {
    const kept = here.get(storedAs(known.url));
    const judged = device ? verdict(known, device, kept?.bytes) : { level: '', text: '…' };
    const badge = kept?.complete
      ? 'downloaded'
      : kept
        ? `${Math.floor((100 * kept.bytes) / (kept.total ?? known.bytes))} % here`
        : judged.text;
    rows.push({
      url: known.url,
      name: known.name,
      about: known.about,
      size: `${known.type} · ${bytes(known.bytes)}`,
      badge,
      level: kept?.complete ? 'good' : judged.level,
    });
  }
  get('model-list').replaceChildren(...rows.map(row));
}

function row({ url, name, about, size, badge, level }: Row): HTMLElement {
  const element = document.createElement('button');
  element.type = 'button';
  element.className = 'model';
  element.title = url;
  if (url === current()) element.setAttribute('aria-current', 'true');
  for (const [className, text] of [
    ['name', name],
    ['about', about],
    ['size', size],
    [`badge ${level}`, badge],
  ] as const) {
    const part = document.createElement('span');
    part.className = className;
    part.textContent = text;
    element.append(part, ' ');
  }
  element.addEventListener('click', () => choose(fromUrl(url)));
  return element;
}

function aboutDevice({ gpu, software, memory, storage }: Device): string {
  const parts = [gpu === null || software ? 'no GPU for this page, models run on the CPU' : gpu];
  if (memory) parts.push(`${Math.round(memory.bytes / 2 ** 30)} GB of memory${memory.more ? ' or more' : ''}`);
  if (storage !== null) parts.push(`${bytes(storage)} of storage free`);
  return `This machine: ${parts.join(', ')}.`;
}
