// npm run generate -- OPTIONS: the engine in a headless browser, from the command line. `--help` lists the options.
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import { CodedError, localModel, openPage } from './lib/headless.mjs';
import { flagsOf, help, optionsOf, parsed } from './lib/options.mjs';
import { bad, command, placed, readText, showProgress, valuesOf } from './lib/page_cli.mjs';
import { printProfile } from './lib/tables.mjs';

/** How to load and how to answer: the flags that the table of options has. */
const LOAD = flagsOf('load');
const GENERATE = flagsOf('generate');

const HELP = `npm run generate -- OPTIONS

  --model builtin | PATH | URL         a .gguf file, a folder with safetensors, config.json and tokenizer.json, or a manifest.json
  --prompt TEXT | --chat TEXT | --messages FILE.json | --tokens 1,2,3
  --image FILE                         A picture before the text of --chat, for models that read pictures; several times for several.
  --schema FILE.json                   A JSON Schema that the answer has to satisfy.
  --tools FILE.json                    Tools, as OpenAI's clients give them: calls of them are told apart from the text.
  --tokenizer FILE                     A tokenizer.json for a .gguf file whose way of cutting texts is not known here.
  --draft builtin | PATH | URL         A smaller model with the same tokens that drafts for the model.
  --headed                             Show the browser.
  --json                               One JSON object on the last line.
  --logits FILE.json                   The raw logits of the last prompt position.
${help(GENERATE)}
${help(LOAD)}`;

const OPTIONS = {
  ...parsed([...LOAD, ...GENERATE]),
  model: { type: 'string', default: 'builtin' },
  prompt: { type: 'string' },
  chat: { type: 'string' },
  image: { type: 'string', multiple: true },
  messages: { type: 'string' },
  tokens: { type: 'string' },
  tools: { type: 'string' },
  schema: { type: 'string' },
  tokenizer: { type: 'string' },
  draft: { type: 'string' },
  headed: { type: 'boolean' },
  json: { type: 'boolean' },
  logits: { type: 'string' },
  help: { type: 'boolean' },
};

await command(async (args) => {
  const given = valuesOf(args, OPTIONS);
  if (given.help) {
    process.stdout.write(HELP);
    return;
  }
  const job = jobOf(given);
  const local = localModel(given.model);
  const draft = draftOf(given);
  const { page, model, close } = await openPage({ local, headed: given.headed, mounts: draft.mounts });
  try {
    job.load = { ...placed(job.load, model, given.model), ...draft.load };
    await page.exposeFunction('millraceDelta', (text) => void process.stdout.write(text));
    await page.exposeFunction('millraceProgress', showProgress);
    process.once('SIGINT', () => void page.evaluate(() => globalThis.millraceStop?.()).catch(() => {}));
    const { error, result } = await page.evaluate(runInPage, job);
    if (error) throw new CodedError(error.code, error.message);
    report(given, result);
  } finally {
    await close();
  }
});

/** Where the page finds the draft model, and what the server has to serve for that. */
function draftOf({ draft }) {
  if (draft === undefined) return { mounts: {}, load: {} };
  const local = localModel(draft);
  if (local === null) return { mounts: {}, load: { draft: draft === 'builtin' ? '/models/box.gguf' : draft } };
  const folder = statSync(local).isDirectory();
  const mounts = { '/draft/': folder ? resolve(local) : dirname(resolve(local)) };
  return { mounts, load: { draft: `/draft/${folder ? '' : encodeURIComponent(basename(local))}` } };
}

/** The load options, the prompt and the generation options, from the command line's. */
function jobOf(given) {
  if (given.logprobs !== undefined && !given.json) throw bad('--logprobs needs --json');
  if (given['logits-from'] !== undefined && !given.logits) throw bad('--logits-from needs --logits FILE.json');
  const prompts = ['prompt', 'chat', 'messages', 'tokens'].filter((name) => given[name] !== undefined);
  if (prompts.length !== 1)
    throw bad(
      prompts.length === 0
        ? 'nothing to continue: give --prompt, --chat, --messages or --tokens'
        : `${prompts.map((name) => `--${name}`).join(' and ')} exclude each other`,
    );
  const { input, tools } = { ...inputOf(given), ...toolsOf(given) };
  const options = {
    ...optionsOf(GENERATE, given, bad),
    ...(tools && { tools }),
    ...(given.schema !== undefined && { schema: readJson(given.schema) }),
    ...(given.logits && { logits: true }),
  };
  const load = optionsOf(LOAD, given, bad);
  if (given.tokenizer !== undefined) load.tokenizer = readText(given.tokenizer);
  return { load, input: withImages(input, given), options, tools: given.tools !== undefined };
}

function toolsOf(given) {
  if (given.tools === undefined) return {};
  if (given.prompt !== undefined || given.tokens !== undefined) throw bad('--tools goes with --chat or --messages');
  const file = readJson(given.tools);
  const tools = Array.isArray(file) ? file : file?.tools;
  if (!Array.isArray(tools) || tools.length === 0)
    throw bad(`${given.tools}: should be a list of tools, each {"type": "function", "function": {"name": …}}`);
  return { tools };
}

/** Pictures before the text, as data: the browser decodes them by what they are. */
function withImages(input, { image = [], chat }) {
  if (image.length === 0) return input;
  if (chat === undefined) throw bad('--image goes with --chat');
  const parts = image.map((path) => {
    if (!existsSync(path)) throw new CodedError('NOT_FOUND', `no such file, ${path}`);
    return { type: 'image', image: `data:image/*;base64,${readFileSync(path, 'base64')}` };
  });
  return [{ role: 'user', content: [...parts, { type: 'text', text: chat }] }];
}

function inputOf(given) {
  if (given.prompt !== undefined) return { input: given.prompt };
  if (given.chat !== undefined) return { input: [{ role: 'user', content: given.chat }] };
  if (given.tokens !== undefined) {
    if (!/^\d+(,\d+)*$/.test(given.tokens))
      throw bad(`--tokens "${given.tokens}" is not a list of token ids such as 1,2,3`);
    return { input: { tokens: given.tokens.split(',').map(Number) } };
  }
  const file = readJson(given.messages);
  if (Array.isArray(file)) return { input: file };
  if (!Array.isArray(file?.messages))
    throw bad(`--messages: neither a list of messages nor an object with one, ${given.messages}`);
  return { input: file.messages, tools: file.tools };
}

function readJson(path) {
  try {
    return JSON.parse(readText(path));
  } catch (error) {
    throw error instanceof CodedError ? error : bad(`${path}: ${error.message}`);
  }
}

/** Runs in the page. Errors come back as data: an exception would lose its code on the way. */
async function runInPage({ load, input, options, tools }) {
  try {
    if (load.tokenizer !== undefined) load.tokenizer = new Blob([load.tokenizer]);
    const { Engine } = await import('/pkg/index.js');
    const engine = await Engine.load({ ...load, onProgress: (progress) => void globalThis.millraceProgress(progress) });
    const sent = [];
    const show = (text) => void sent.push(globalThis.millraceDelta(text));
    const onTokens = ({ parts = [] }) => {
      for (const part of parts) {
        if (part.type === 'tool_call') show(`\n${part.name}(`);
        else show(part.type === 'tool_call_end' ? ')\n' : part.text);
      }
    };
    const generation = engine.generate(input, tools ? { ...options, onTokens } : options);
    globalThis.millraceStop = () => generation.stop();
    for await (const delta of generation) if (!tools) show(delta);
    await Promise.all(sent);
    const { logits, all_logits, ...result } = await generation;
    return {
      result: {
        ...result,
        tokens: Array.from(result.tokens),
        logits: logits && Array.from(logits),
        all_logits: all_logits && Array.from(all_logits, (row) => Array.from(row)),
      },
    };
  } catch (error) {
    return {
      error: { code: error?.code ?? 'INTERNAL', message: error?.code ? error.message : String(error?.stack ?? error) },
    };
  }
}

function report(given, { logits, all_logits, ...result }) {
  if (given.logits !== undefined) {
    const extra = all_logits ? { from: Number(given['logits-from']), all: all_logits } : {};
    writeFileSync(given.logits, `${JSON.stringify({ logits, ...extra })}\n`);
  }
  process.stdout.write('\n');
  if (result.profile) printProfile(result.profile);
  if (given.json) process.stdout.write(`${JSON.stringify(result)}\n`);
}
