// A Worker that does nothing but read stored files, while the engine's own thread repacks what was read before.

/** The name of a Worker whose script should do this. */
export const READS = 'millrace-reads';

type Asked =
  | { open: number; handle: FileSystemFileHandle }
  | { read: number; id: number; at: number; length: number; buffer: ArrayBuffer }
  | { close: number };

interface SharedHandle {
  mode?: string;
  read(into: Uint8Array, options: { at: number }): number;
  close(): void;
}

/** A handle that others can have too; null where the browser has none. */
async function shared(handle: FileSystemFileHandle): Promise<SharedHandle | null> {
  const create = (handle as unknown as { createSyncAccessHandle(options: object): Promise<SharedHandle> }).createSyncAccessHandle;
  const opened = await create.call(handle, { mode: 'read-only' });
  if (opened.mode === 'read-only') return opened;
  opened.close();
  return null;
}

/** Answers each read with its bytes, or without where it could not be done: then whoever asked reads for itself. */
export function serveReads(self: { onmessage: ((event: MessageEvent<Asked>) => void) | null; postMessage(message: unknown, transfer: Transferable[]): void }): void {
  const files = new Map<number, Promise<SharedHandle | null>>();
  self.onmessage = async ({ data }) => {
    if ('open' in data) {
      files.set(data.open, shared(data.handle).catch(() => null));
    } else if ('close' in data) {
      const file = files.get(data.close);
      files.delete(data.close);
      (await file)?.close();
    } else {
      const { id, at, length, buffer } = data;
      let whole = false;
      try {
        const file = await files.get(data.read);
        whole = file?.read(new Uint8Array(buffer, 0, length), { at }) === length;
      } catch {
        // Said by the answer.
      }
      if (whole) self.postMessage({ id, length, buffer }, [buffer]);
      else self.postMessage({ id }, []);
    }
  };
}
