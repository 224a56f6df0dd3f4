// Pictures in messages, on the page's side: which parts they are, and what of them can be sent to a Worker.
import { bad, isObject } from './check.ts';
import type { MessagePart, Input, PictureSource } from './types.ts';

/** Pixels, four bytes each. */
export interface Pixels {
  width: number;
  height: number;
  data: Uint8Array<ArrayBuffer>;
}

/** What a Worker decodes: an address, encoded bytes, or pixels. */
export type Sendable = string | Blob | ImageBitmap | Pixels;

/** A picture, and whether it is shown with low detail. */
interface Shown<Source> {
  source: Source;
  low: boolean;
}

/** A picture as a Worker gets it. */
export type SentPicture = Shown<Sendable>;

/** The pictures of an input, in the order of their parts. */
export function picturesOf(input: Input): Shown<PictureSource>[] {
  if (typeof input === 'string' || !Array.isArray(input)) return [];
  const parts = (input as readonly { content: unknown }[]).flatMap(({ content }) =>
    Array.isArray(content) ? (content as MessagePart[]) : [],
  );
  return parts.flatMap((part) => (part.type === 'text' ? [] : [shownOf(part)]));
}

function shownOf(part: Exclude<MessagePart, { type: 'text' }>): Shown<PictureSource> {
  if (part.type === 'image') return { source: part.image, low: false };
  if (typeof part.image_url === 'string') return { source: part.image_url, low: false };
  return { source: part.image_url.url, low: part.image_url.detail === 'low' };
}

/** OpenAI's names; all but `low` are the picture as it is. */
const DETAILS: readonly unknown[] = ['auto', 'low', 'high', 'original'];

/** What is wrong with the `detail` of an `image_url`, or null. */
export function wrongDetail(address: unknown): string | null {
  const detail = isObject(address) ? (address as { detail?: unknown }).detail : undefined;
  if (detail === undefined || detail === null || DETAILS.includes(detail)) return null;
  return `has the detail ${JSON.stringify(detail)}: it can be ${DETAILS.join(', ')}`;
}

/** What is wrong with the content of a message that is a list, or null. */
export function wrongParts(parts: readonly unknown[]): string | null {
  for (const [i, part] of parts.entries()) {
    const wrong = wrongPart(part);
    if (wrong) return `part ${i} ${wrong}`;
  }
  return parts.length === 0 ? 'has no parts' : null;
}

function wrongPart(part: unknown): string | null {
  if (!isObject(part)) return 'must be an object with a type';
  const { type, text, image, image_url: address } = part as Record<string, unknown>;
  if (type === 'text') return typeof text === 'string' ? null : 'must have a text';
  if (type === 'image')
    return isPicture(image) ? null : 'must have an image: an address, a Blob, pixels, or an element that shows it';
  if (type !== 'image_url') return `is of type ${String(type)}; text, image_url and image are read`;
  const url = isObject(address) ? (address as { url?: unknown }).url : address;
  return typeof url === 'string' && url !== '' ? wrongDetail(address) : 'must have an image_url with a url';
}

/** By properties: classes differ from one place to another. */
function isPicture(image: unknown): boolean {
  if (typeof image === 'string') return image !== '';
  if (typeof image !== 'object' || image === null) return false;
  return image instanceof URL || image instanceof Blob || 'width' in image || 'displayWidth' in image;
}

/** The texts among parts. */
export const textOf = (parts: readonly MessagePart[]): string =>
  parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n');

/**
 * What a tool has returned, as parts, where there is a picture in it: a part of a message, a Blob of a picture, pixels, an element that shows one; pictures as MCP
 * has them, `{ type: 'image', data, mimeType }`; a list of any of these and texts, also as the `content` of an object. Null of all else.
 */
export function shownParts(value: unknown): MessagePart[] | null {
  const list = isObject(value) && Array.isArray(value.content) ? value.content : Array.isArray(value) ? value : [value];
  const parts = list.map(shownPart);
  return parts.every((part) => part !== null) && parts.some(({ type }) => type !== 'text') ? parts : null;
}

function shownPart(value: unknown): MessagePart | null {
  if (typeof value === 'string') return { type: 'text', text: value };
  if (typeof value !== 'object' || value === null) return null;
  if (value instanceof Blob) return /^image\//.test(value.type) ? { type: 'image', image: value } : null;
  const { type, data, mimeType, text } = value as Record<string, unknown>;
  if (type === 'text') return typeof text === 'string' ? { type, text } : null;
  if (type === 'image' && typeof data === 'string')
    return { type: 'image', image: `data:${typeof mimeType === 'string' ? mimeType : 'image/png'};base64,${data}` };
  if (wrongPart(value) === null) return value as MessagePart;
  return isPixels(value) || isElement(value) ? { type: 'image', image: value as PictureSource } : null;
}

/** Whether it is of one of the browser's classes that show pictures. */
const isElement = (value: object): boolean =>
  /^\[object (ImageBitmap|HTML(Canvas|Image|Video)Element|OffscreenCanvas|VideoFrame)\]$/.test(
    Object.prototype.toString.call(value),
  );

/** Makes of a picture what can be sent: of an element that shows one what it shows now, of pixels a copy, which can be handed over. */
export async function sendable(source: PictureSource, base: (address: string) => string): Promise<Sendable> {
  if (typeof source === 'string' || source instanceof URL) return base(String(source));
  if (source instanceof Blob) return source;
  if (isPixels(source)) {
    const { width, height, data } = source;
    return { width, height, data: new Uint8Array(data.buffer, data.byteOffset, data.byteLength).slice() };
  }
  if (typeof ImageBitmap !== 'undefined' && source instanceof ImageBitmap) return source;
  if (typeof createImageBitmap === 'undefined')
    throw bad('engine.generate: a picture is an address, a Blob or pixels here');
  try {
    return await createImageBitmap(source as ImageBitmapSource);
  } catch (error) {
    throw bad(`engine.generate: a picture cannot be read: ${(error as Error).message}`);
  }
}

const isPixels = (source: object): source is ImageData =>
  'data' in source && ArrayBuffer.isView((source as { data: unknown }).data) && 'width' in source && 'height' in source;
