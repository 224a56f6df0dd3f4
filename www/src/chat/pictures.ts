// Pictures for the next question: chosen, photographed, dropped or pasted. Only available while a model is loaded that reads
// pictures.
import type { Engine } from 'millrace';
import { get, make } from '../shared/dom.ts';
import { isPicture, type Shown, thumbnail } from './thumbnail.ts';

/** The most pictures of one question. */
const MOST = 8;

const button = get<HTMLButtonElement>('attach');
/** Opens the camera of a device that is held in the hand; others choose files in its place. */
const camera = get<HTMLButtonElement>('photograph');
const strip = get<HTMLUListElement>('attached');
/** The note about files that could not be attached, which screen readers announce. */
const note = get('attach-note');
let attached: Shown[] = [];
/** The engine that counts pictures' tokens, while its model reads them. */
let reader: Engine | null = null;

export function setUp(): void {
  chooses(button, get('picture-files'));
  chooses(camera, get('photo'));
  get('prompt').addEventListener('paste', (event) => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.some(isPicture) && !button.hidden) {
      event.preventDefault();
      add(files);
    }
  });
}

/** Has a button open the chooser of an input for files, and attaches what is chosen. */
function chooses(opener: HTMLButtonElement, input: HTMLInputElement): void {
  opener.addEventListener('click', () => input.click());
  input.addEventListener('change', () => {
    add([...(input.files ?? [])]);
    // Choosing the same file again has to count as a change.
    input.value = '';
  });
}

/** Sets the engine, if its model reads pictures, else null. Attached pictures stay for the next such model. */
export function offer(engine: Engine | null): void {
  if (engine === reader) return;
  reader = engine;
  button.hidden = get('see').hidden = engine === null;
  camera.hidden = button.hidden || !matchMedia('(pointer: coarse)').matches;
  // Token counts depend on the model.
  paint();
}

/** Attaches pictures to the next question; other files are left out. */
export function add(files: readonly File[]): void {
  note.textContent = '';
  if (button.hidden) {
    note.textContent = 'This model does not read pictures.';
    return;
  }
  const pictures = files.filter(isPicture).map((file) => ({ name: file.name || 'Picture', data: file as Blob }));
  const room = MOST - attached.length;
  attached = [...attached, ...pictures.slice(0, room)];
  if (pictures.length > room) note.textContent = `A question shows at most ${MOST} pictures.`;
  paint();
  get('prompt').focus();
}

/** Attaches a picture of a text, as an example. */
export async function draw(text: string): Promise<void> {
  const canvas = Object.assign(document.createElement('canvas'), { width: 400, height: 200 });
  const context = canvas.getContext('2d')!;
  context.fillStyle = 'white';
  context.fillRect(0, 0, 400, 200);
  context.fillStyle = 'black';
  context.font = 'bold 64px sans-serif';
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  context.fillText(text, 200, 100);
  const blob = await new Promise<Blob | null>((done) => canvas.toBlob(done));
  if (blob) add([new File([blob], 'Example.png', { type: blob.type })]);
}

/** Takes the attached pictures. */
export function take(): Shown[] {
  note.textContent = '';
  const taken = button.hidden ? [] : attached;
  if (!button.hidden) attached = [];
  paint();
  return taken;
}

/** Whether any picture is attached that the loaded model reads. */
export const any = (): boolean => !button.hidden && attached.length > 0;

function paint(): void {
  strip.replaceChildren(
    ...attached.map((picture) => {
      const remove = make('button', '', '×');
      remove.type = 'button';
      remove.setAttribute('aria-label', `Remove ${picture.name}`);
      remove.addEventListener('click', () => {
        attached = attached.filter((other) => other !== picture);
        paint();
        get('prompt').focus();
      });
      const image = thumbnail(picture);
      const tokens = make('span', 'tokens');
      image.addEventListener('load', () => void count(image, tokens), { once: true });
      return make('li', '', image, tokens, remove);
    }),
  );
  strip.hidden = button.hidden || attached.length === 0;
}

/** Shows how many tokens of the prompt a picture takes. */
async function count({ naturalWidth, naturalHeight }: HTMLImageElement, shown: HTMLElement): Promise<void> {
  try {
    const tokens = await reader?.imageTokens(naturalWidth, naturalHeight);
    if (tokens !== undefined) shown.textContent = `${tokens.toLocaleString('en')} tokens`;
  } catch {
    shown.textContent = 'cannot be read';
  }
}
