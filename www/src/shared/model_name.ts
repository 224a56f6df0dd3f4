/** The model that comes with the pages. */
export const BOX = './models/box.gguf';

/** A short name for the model of an address: its file, or the folder of a manifest or of safetensors. */
export function modelName(url: string): string {
  const { hostname, pathname } = new URL(url, location.href);
  const parts = pathname.split('/').filter((part) => part !== '' && part !== 'manifest.json');
  const name = parts.at(-1) ?? hostname;
  try {
    return decodeURIComponent(name);
  } catch {
    return name; // not an encoded name
  }
}
