// Pictures on the Worker's side: from an address or encoded bytes to pixels.
import { MillraceError } from './errors.ts';
import type { Pixels, Sendable } from './pictures.ts';
import type { ShownRequest, WasmPicture } from './millrace.js';
import type { SentRequest } from './protocol.ts';

/** As transformers' image processors see pictures: upright, without a colour profile, and transparent ones on white. */
const DECODED: ImageBitmapOptions = {
  imageOrientation: 'from-image',
  premultiplyAlpha: 'none',
  colorSpaceConversion: 'none',
};

/** A request with the pixels of its pictures. */
export async function withPixels(request: SentRequest, signal: AbortSignal): Promise<ShownRequest> {
  const { pictures, ...rest } = request;
  if (!pictures?.length) return rest;
  const decoded = pictures.map(async ({ source, low }, i) => {
    const pixels = await pixelsOf(source, i, signal);
    // What is made smaller has another key, made of this one.
    return { ...pixels, key: low ? await pixels.key : pixels.key, low };
  });
  return { ...rest, pictures: await Promise.all(decoded) };
}

async function pixelsOf(picture: Sendable, index: number, signal: AbortSignal): Promise<WasmPicture> {
  if (typeof picture === 'string') return pixelsOf(await fetched(picture, index, signal), index, signal);
  if (picture instanceof Blob) {
    if (typeof createImageBitmap === 'undefined' || typeof OffscreenCanvas === 'undefined')
      throw unreadable(
        index,
        'nothing here decodes pictures: give its pixels, { width, height, data } with RGBA bytes',
      );
    const hash = await hashOf(() => picture.arrayBuffer());
    if (hash === null) return drawn(await bitmapOf(picture, index), index);
    const pixels = decoded.get(hash) ?? { ...drawn(await bitmapOf(picture, index), index), key: `file ${hash}` };
    keep(hash, pixels);
    return pixels;
  }
  const pixels = 'data' in picture ? picture : drawn(picture, index);
  // The engine reads them meanwhile.
  const key = hashOf(async () => pixels.data).then((hash) => (hash === null ? undefined : `pixels ${hash}`));
  return { ...pixels, key };
}

/** Bytes of pixels that are kept: every turn of a conversation shows its pictures again. */
const KEPT = 64 << 20;
/** What encoded pictures are, by the hash of their bytes; the latest last. */
const decoded = new Map<string, WasmPicture>();

function keep(key: string, pixels: WasmPicture): void {
  decoded.delete(key);
  decoded.set(key, pixels);
  let bytes = [...decoded.values()].reduce((sum, { data }) => sum + data.byteLength, 0);
  for (const [oldest, { data }] of decoded) {
    if (bytes <= KEPT) break;
    decoded.delete(oldest);
    bytes -= data.byteLength;
  }
}

/** Lets all of them go. */
export const forgetPixels = (): void => decoded.clear();

/**
 * The hash of a picture's bytes, by the browser's own code; null where nothing hashes (pages that are not secure) or they cannot be read, which decoding then says.
 */
async function hashOf(bytes: () => Promise<BufferSource>): Promise<string | null> {
  try {
    const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', await bytes()));
    return Array.from(hash, (byte) => byte.toString(16).padStart(2, '0')).join('');
  } catch {
    return null;
  }
}

const bitmapOf = (picture: Blob, index: number): Promise<ImageBitmap> =>
  createImageBitmap(picture, DECODED).catch((error) => {
    throw unreadable(index, `it cannot be decoded (${picture.type || 'of no type'}): ${error.message}`);
  });

function drawn(bitmap: ImageBitmap, index: number): Pixels {
  const { width, height } = bitmap;
  const context = new OffscreenCanvas(width, height).getContext('2d', { willReadFrequently: true });
  if (!context) throw unreadable(index, `there is no canvas of ${width} x ${height} pixels`);
  context.fillStyle = 'white';
  context.fillRect(0, 0, width, height);
  context.drawImage(bitmap, 0, 0);
  bitmap.close();
  return { width, height, data: new Uint8Array(context.getImageData(0, 0, width, height).data.buffer) };
}

async function fetched(address: string, index: number, signal: AbortSignal): Promise<Blob> {
  let response: Response;
  try {
    response = await fetch(address, { signal });
  } catch (error) {
    if (signal.aborted) throw error;
    throw unreadable(index, `${shortened(address)} cannot be fetched: ${(error as Error).message}`);
  }
  if (!response.ok) throw unreadable(index, `${shortened(address)} is answered with ${response.status}`);
  return response.blob();
}

const shortened = (address: string): string => (address.length > 80 ? `${address.slice(0, 77)}…` : address);

const unreadable = (index: number, why: string): MillraceError =>
  new MillraceError('BAD_OPTION', `engine.generate: picture ${index}: ${why}`);
