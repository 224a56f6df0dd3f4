// npm run embed -- OPTIONS and npm run rerank -- OPTIONS: embeddings and scores of texts, by the engine in a headless
// browser, as `millrace embed` and `millrace rerank` make them. `--help` lists the options.
import { CodedError, localModel, openPage } from './lib/headless.mjs';
import { flagsOf, help, optionsOf, parsed } from './lib/options.mjs';
import { bad, command, placed, readText, showProgress, valuesOf } from './lib/page_cli.mjs';

const RERANK = process.argv[2] === 'rerank';
const [NAME, WHAT] = RERANK ? ['rerank', 'document'] : ['embed', 'text'];

/** How to load and what to make: the flags that the table of options has. */
const LOAD = flagsOf('load');
const MAKE = flagsOf(NAME);

const HELP = `npm run ${NAME} -- OPTIONS

  --model PATH | URL                   a .gguf file, a folder with safetensors, config.json and tokenizer.json, or a manifest.json
${RERANK ? '  --query TEXT                         The question.\n' : ''}\
  --text TEXT                          A ${WHAT}; several are read together.
  --lines FILE                         A file of which each line is a ${WHAT}.
  --texts FILE.jsonl                   A file of which each line is a ${WHAT} as JSON: a string, or an object with "text".
  --tokenizer FILE                     A tokenizer.json for a .gguf file whose way of cutting texts is not known here.
  --headed                             Show the browser.
  --json                               Nothing but JSON, one line for each ${WHAT}.
${help(MAKE)}
${help(LOAD)}`;

const OPTIONS = {
  ...parsed([...LOAD, ...MAKE]),
  model: { type: 'string' },
  ...(RERANK && { query: { type: 'string' } }),
  text: { type: 'string', multiple: true },
  lines: { type: 'string' },
  texts: { type: 'string' },
  tokenizer: { type: 'string' },
  headed: { type: 'boolean' },
  json: { type: 'boolean' },
  help: { type: 'boolean' },
};

await command(async (args) => {
  const given = valuesOf(RERANK ? args.slice(1) : args, OPTIONS);
  if (given.help) {
    process.stdout.write(HELP);
    return;
  }
  // The model in the box does neither.
  if (given.model === undefined) throw bad(`give --model: a model that ${RERANK ? 'judges' : 'embeds'}`);
  if (RERANK && given.query === undefined) throw bad('give --query');
  const texts = textsOf(given);
  const options = optionsOf(MAKE, given, bad);
  const load = optionsOf(LOAD, given, bad);
  if (given.tokenizer !== undefined) load.tokenizer = readText(given.tokenizer);
  const { page, model, close } = await openPage({ local: localModel(given.model), headed: given.headed });
  try {
    await page.exposeFunction('millraceProgress', showProgress);
    const job = { load: placed(load, model, given.model), texts, options, query: given.query };
    const { error, result } = await page.evaluate(runInPage, job);
    if (error) throw new CodedError(error.code, error.message);
    report(given, result, texts.length);
  } finally {
    await close();
  }
});

/** The texts, in the order in which the native command line reads them. */
function textsOf({ text = [], lines, texts }) {
  const all = [...text];
  if (lines !== undefined) all.push(...linesOf(lines));
  if (texts !== undefined)
    linesOf(texts).forEach((line, i) => {
      if (line.trim() !== '') all.push(textOf(line, `${texts}: line ${i + 1}`));
    });
  if (all.length === 0) throw bad('nothing to read: give --text, --lines or --texts');
  return all;
}

function linesOf(path) {
  const lines = readText(path).split('\n');
  if (lines.at(-1) === '') lines.pop();
  return lines.map((line) => line.replace(/\r$/, ''));
}

function textOf(line, where) {
  try {
    const value = JSON.parse(line);
    const text = typeof value === 'string' ? value : value?.text;
    if (typeof text === 'string') return text;
  } catch {}
  throw bad(`${where} is no text as JSON`);
}

/** Runs in the page. Errors come back as data: an exception would lose its code on the way. */
async function runInPage({ load, texts, options, query }) {
  try {
    if (load.tokenizer !== undefined) load.tokenizer = new Blob([load.tokenizer]);
    const { Engine } = await import('/pkg/index.js');
    const engine = await Engine.load({ ...load, onProgress: (progress) => void globalThis.millraceProgress(progress) });
    if (query !== undefined) {
      const { ranking, ...told } = await engine.rerank(query, texts, options);
      return { result: { lines: ranking, ...told } };
    }
    const { vectors, ...told } = await engine.embed(texts, options);
    return { result: { lines: vectors.map((vector) => Array.from(vector)), ...told } };
  } catch (error) {
    return {
      error: { code: error?.code ?? 'INTERNAL', message: error?.code ? error.message : String(error?.stack ?? error) },
    };
  }
}

function report(given, { lines, tokens, truncated, ms }, count) {
  for (const line of lines) process.stdout.write(`${JSON.stringify(line)}\n`);
  if (given.json) return;
  if (truncated > 0) process.stderr.write(`${truncated} were longer than the model reads and were cut\n`);
  const speed = ((tokens * 1000) / ms).toFixed(0);
  process.stderr.write(`${count} ${WHAT}s of ${tokens} tokens in ${ms.toFixed(0)} ms: ${speed} tok/s\n`);
}
