// A Worker that does nothing but read stored files, while the engine's own thread repacks what was read before.

/** The name of a Worker that runs `serveReads`. */
export const READS = 'millrace-reads' as const;

type Asked =
  | { open: number; handle: FileSystemFileHandle; length: number }
  | { read: number; id: number; at: number; length: number; buffer: ArrayBuffer }
  | { close: number };

interface SharedHandle {
  mode?: string;
  read(into: Uint8Array, options: { at: number }): number;
  close(): void;
}

/** A handle that others can have too; null where the browser has none. */
async function shared(handle: FileSystemFileHandle): Promise<SharedHandle | null> {
  const create = (handle as unknown as { createSyncAccessHandle(options: object): Promise<SharedHandle> })
    .createSyncAccessHandle;
  const opened = await create.call(handle, { mode: 'read-only' });
  if (opened.mode === 'read-only') return opened;
  opened.close();
  return null;
}

/** A file, and where it begins where all are laid one behind the other. */
interface Opened {
  handle: Promise<SharedHandle | null>;
  begin: number;
  length: number;
  closed: boolean;
}

/** Bytes that are read ahead, from the disk into the system's memory, while nothing is asked for. */
const AHEAD = 512 << 20;
const STEP = 2 << 20;

/** Answers each read with its bytes, or without where reading failed: then the engine's Worker reads for itself. */
export function serveReads(self: {
  onmessage: ((event: MessageEvent<Asked>) => void) | null;
  postMessage(message: unknown, transfer: Transferable[]): void;
}): void {
  const files = new Map<number, Opened>();
  const order: Opened[] = [];
  let laid = 0;
  /** Behind the last byte that was asked for. */
  let served = 0;
  let wake: (() => void) | null = null;
  const woken = (): void => {
    wake?.();
    wake = null;
  };

  self.onmessage = async ({ data }) => {
    if ('open' in data) {
      const file = { handle: shared(data.handle).catch(() => null), begin: laid, length: data.length, closed: false };
      laid += data.length;
      files.set(data.open, file);
      order.push(file);
      woken();
    } else if ('close' in data) {
      const file = files.get(data.close);
      files.delete(data.close);
      if (!file) return;
      file.closed = true;
      (await file.handle)?.close();
    } else {
      const { id, at, length, buffer } = data;
      const file = files.get(data.read);
      let whole = false;
      try {
        whole = (await file?.handle)?.read(new Uint8Array(buffer, 0, length), { at }) === length;
      } catch {
        // Said by the answer.
      }
      if (whole) self.postMessage({ id, length, buffer }, [buffer]);
      else self.postMessage({ id }, []);
      served = Math.max(served, (file?.begin ?? 0) + at + length);
      woken();
    }
  };

  /** Lets what was asked for meanwhile go first. */
  const { port1, port2 } = new MessageChannel();
  const others = (): Promise<void> =>
    new Promise((done) => {
      port1.onmessage = () => done();
      port2.postMessage(0);
    });

  void (async () => {
    const scratch = new Uint8Array(STEP);
    for (let next = 0; ; next += 1) {
      while (next >= order.length) await new Promise<void>((done) => (wake = done));
      const file = order[next]!;
      const handle = await file.handle;
      for (let at = 0; handle && at < file.length; at += STEP) {
        while (!file.closed && file.begin + at > served + AHEAD) await new Promise<void>((done) => (wake = done));
        if (file.closed) break;
        if (file.begin + at < served) continue;
        try {
          handle.read(scratch, { at });
        } catch {
          break;
        }
        await others();
      }
    }
  })();
}
