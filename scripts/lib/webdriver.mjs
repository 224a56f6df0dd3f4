// A client of the W3C's WebDriver protocol: for Safari, which only that can drive.
import { spawn } from 'node:child_process';
import { createServer } from 'node:net';
import { Failure } from './env.mjs';

/** How long a driver may take to listen, in milliseconds. */
const START_MS = 30_000;

async function freePort() {
  const probe = createServer();
  await new Promise((done) => probe.listen(0, 'localhost', done));
  const { port } = probe.address();
  await new Promise((done) => probe.close(done));
  return port;
}

/**
 * Starts a driver, which takes `--port N`, and a session. Resolves to `{ browser, open(url), run(script, args), close() }`; `script` is the body of a
 * function that calls its last argument when it is done.
 */
export async function webdriver(driver, capabilities) {
  const port = await freePort();
  const base = `http://localhost:${port}`;
  const child = spawn(driver, [`--port=${port}`], { stdio: 'ignore' });
  let ended = null;
  child.on('error', (error) => (ended = error.message));
  child.on('exit', (code) => (ended ??= `it ended with status ${code}`));
  const call = async (method, path, body) => {
    const reply = await fetch(base + path, {
      method,
      headers: { 'Content-Type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const { value } = await reply.json();
    if (!reply.ok) throw new Error(`${method} ${path}: ${value?.error}: ${value?.message}`);
    return value;
  };
  const stop = () => child.kill();
  try {
    for (const began = Date.now(); ; ) {
      if (ended) throw new Failure(`${driver} could not be started: ${ended}`);
      try {
        if ((await call('GET', '/status')).ready) break;
      } catch (error) {
        if (Date.now() - began > START_MS) throw new Failure(`${driver} does not answer: ${error.message}`);
      }
      await new Promise((done) => setTimeout(done, 100));
    }
    const session = await call('POST', '/session', { capabilities: { alwaysMatch: capabilities } });
    const at = `/session/${session.sessionId}`;
    await call('POST', `${at}/timeouts`, { script: 600_000, pageLoad: 60_000 });
    return {
      browser: `${session.capabilities.browserName} ${session.capabilities.browserVersion}`,
      open: (url) => call('POST', `${at}/url`, { url }),
      run: (script, args = []) => call('POST', `${at}/execute/async`, { script, args }),
      async close() {
        await call('DELETE', at).catch(() => {});
        stop();
      },
    };
  } catch (error) {
    stop();
    throw error;
  }
}
