// The paths that are answered. Only a path's end matters: clients are given various base addresses.
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

/** All paths, in words. @internal */
export const ALL: string = said(PATHS);

/** The paths that the loaded model answers: a model that embeds or ranks does not generate. @internal */
export function answered({ info }: Engine): string {
  const { pooling } = info.model;
  const not = pooling === undefined ? /embeddings/ : pooling === 'rank' ? /embeddings|completions/ : /completions/;
  return said(PATHS.filter(([end]) => !not.test(end)));
}

/** A request's path, with names of models decoded and without a trailing slash. @internal */
export function pathOf(request: Request): string {
  const path = new URL(request.url).pathname.replace(/\/+$/, '');
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

/** The known path and its method; null for another path. The loaded model's name may have slashes. @internal */
export function endOf(path: string, loaded: string): Path | null {
  const found = PATHS.find(([end]) => path.endsWith(end));
  const named = path.endsWith(`/models/${loaded}`) || /\/models\/[^/]+$/.test(path);
  return found ?? (named ? PATHS.at(-1)! : null);
}
