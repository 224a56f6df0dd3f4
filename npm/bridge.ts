// A `fetch` of the page's own, called from the Worker: the page sends each piece of the body when it is asked for.
import type { CustomFetch } from './types.ts';

/** From the page, in answer to a request and then to each `pull`. */
type FromPage =
  | { status: number; headers: [string, string][]; body: boolean }
  | { error: string }
  | { chunk: Uint8Array }
  | { done: true };
type FromWorker = 'pull' | 'cancel';

/** Answers one request of the Worker's through `port`. @internal */
export async function serve(
  fetch: CustomFetch,
  url: string,
  headers: Record<string, string>,
  port: MessagePort,
): Promise<void> {
  const controller = new AbortController();
  let reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  const send = (message: FromPage, transfer: Transferable[] = []): void => port.postMessage(message, transfer);
  const failed = (error: unknown): void => send({ error: error instanceof Error ? error.message : String(error) });
  port.onmessage = async ({ data }: MessageEvent<FromWorker>) => {
    if (data === 'cancel') {
      controller.abort();
      await reader?.cancel().catch(() => {});
      return port.close();
    }
    try {
      const { done, value } = await reader!.read();
      if (done) return send({ done: true });
      // A copy: the caller may still need its own.
      const chunk = value.slice();
      send({ chunk }, [chunk.buffer]);
    } catch (error) {
      failed(error);
    }
  };
  try {
    const response = await fetch(url, { headers, signal: controller.signal });
    if (!(response instanceof Response)) throw new TypeError('fetch did not resolve with a Response');
    if (response.status === 0) throw new TypeError('the Response is opaque (mode no-cors): its bytes cannot be read');
    reader = response.body?.getReader();
    send({ status: response.status, headers: [...response.headers], body: reader !== undefined });
  } catch (error) {
    failed(error);
  }
}

/** In the Worker: a `fetch` whose requests `ask` hands to the page. @internal */
export function through(ask: (url: string, headers: Record<string, string>, port: MessagePort) => void): CustomFetch {
  return (url, { headers, signal }) =>
    new Promise((resolve, reject) => {
      const { port1: port, port2 } = new MessageChannel();
      const cancel = (): void => {
        port.postMessage('cancel' satisfies FromWorker);
        port.close();
      };
      const onAbort = (): void => {
        cancel();
        reject(signal.reason);
      };
      signal.addEventListener('abort', onAbort, { once: true });
      port.onmessage = ({ data }: MessageEvent<FromPage>) => {
        if ('error' in data) return reject(new TypeError(data.error));
        if (!('status' in data)) return;
        const pull = (controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> =>
          new Promise((done) => {
            port.onmessage = ({ data }: MessageEvent<FromPage>) => {
              if ('chunk' in data) controller.enqueue(data.chunk);
              else if ('error' in data) controller.error(new TypeError(data.error));
              else controller.close();
              done();
            };
            port.postMessage('pull' satisfies FromWorker);
          });
        const body = data.body ? new ReadableStream<Uint8Array>({ pull, cancel }, { highWaterMark: 0 }) : null;
        const bodiless = [204, 205, 304].includes(data.status);
        resolve(new Response(bodiless ? null : body, { status: data.status, headers: data.headers }));
      };
      ask(url, headers, port2);
    });
}
