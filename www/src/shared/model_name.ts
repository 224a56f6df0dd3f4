/** The models that come with the pages: one that chats, with what reads pictures for it, and one that embeds. */
export const BOX_TEXT = './models/box.gguf';
export const BOX = `${BOX_TEXT}#mmproj=mmproj-box.gguf`;
export const EMBED_BOX = './models/embed.gguf';

/** A short name for the model of an address: its file, or the folder of a manifest or of safetensors. */
export function modelName(url: string): string {
  if (!URL.canParse(url, location.href)) return url; // an error of the engine says so
  const { hostname, pathname } = new URL(url, location.href);
  const parts = pathname.split('/').filter((part) => part !== '' && part !== 'manifest.json');
  const name = parts.at(-1) ?? hostname;
  try {
    return decodeURIComponent(name);
  } catch {
    return name; // not an encoded name
  }
}
