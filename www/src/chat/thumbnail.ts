// A picture of a question, and its thumbnail. The code that attaches pictures is loaded once a model reads them.
import { make } from '../shared/dom.ts';

/** A picture of a question, as it is stored. */
export interface Shown {
  /** The file's name, which screen readers announce. */
  name: string;
  data: Blob;
}

export const isPicture = (file: File): boolean => file.type.startsWith('image/');

/** A small view of a picture. */
export function thumbnail({ name, data }: Shown): HTMLImageElement {
  const image = make('img', 'thumbnail');
  image.alt = name;
  image.src = URL.createObjectURL(data);
  const free = (): void => URL.revokeObjectURL(image.src);
  image.addEventListener('load', free, { once: true });
  image.addEventListener('error', free, { once: true });
  return image;
}
