// Which addresses are answered. Whatever stands before a path's end does not matter: clients are given bases of all kinds.
import type { Engine } from '../engine.ts';

type Path = readonly [end: string, method: 'GET' | 'POST'];

const PATHS: readonly Path[] = [
  ['/chat/completions', 'POST'],
  ['/completions', 'POST'],
  ['/embeddings', 'POST'],
  ['/models', 'GET'],
  ['/models/NAME', 'GET'],
];

const said = (paths: readonly Path[]): string => paths.map(([end, method]) => `${method} ${end}`).join(', ');

/** All that there is, in words. @internal */
export const ALL: string = said(PATHS);

/** What of it the loaded model answers: one that embeds or judges does not write. @internal */
export function answered({ info }: Engine): string {
  const { pooling } = info.model;
  const not = pooling === undefined ? /embeddings/ : pooling === 'rank' ? /embeddings|completions/ : /completions/;
  return said(PATHS.filter(([end]) => !not.test(end)));
}

/** A request's path, names of models in it as they are, without a slash behind it. @internal */
export function pathOf(request: Request): string {
  const path = new URL(request.url).pathname.replace(/\/+$/, '');
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

/** Which of the paths it is, and its method; null where it is none. A model's name may have slashes, that of the loaded one. @internal */
export function endOf(path: string, loaded: string): Path | null {
  const found = PATHS.find(([end]) => path.endsWith(end));
  const named = path.endsWith(`/models/${loaded}`) || /\/models\/[^/]+$/.test(path);
  return found ?? (named ? PATHS.at(-1)! : null);
}
