import { Engine, MillraceError } from 'millrace';

// Any address of a .gguf file that this page may fetch.
const MODEL = '/models/box.gguf';

const get = (id) => document.getElementById(id);
const messages = [];
let engine = null;
let generation = null;

get('form').addEventListener('submit', (event) => {
  event.preventDefault();
  void ask(get('prompt').value);
});
get('stop').addEventListener('click', () => generation?.stop());
get('retry').addEventListener('click', load);
void load();

async function load() {
  showError(null);
  get('status').textContent = 'Loading the model';
  get('progress').hidden = false;
  try {
    engine = await Engine.load({ model: MODEL, onProgress: showProgress });
    get('status').textContent = `Ready: ${engine.modelName} on ${engine.info.adapter.name}`;
    get('send').disabled = false;
  } catch (error) {
    get('status').textContent = 'Not loaded';
    showError(error);
  }
  get('progress').hidden = true;
}

function showProgress({ phase, loaded, total, note }) {
  get('status').textContent = note ?? phase;
  get('progress').max = total || 1;
  get('progress').value = loaded;
}

async function ask(question) {
  showError(null);
  messages.push({ role: 'user', content: question });
  get('answer').textContent = '';
  get('send').disabled = true;
  get('stop').disabled = false;
  try {
    generation = engine.generate(messages, { temperature: 0 });
    for await (const text of generation) get('answer').append(text);
    // Stopped or not, this is what has been said.
    const { text } = await generation;
    messages.push({ role: 'assistant', content: text });
  } catch (error) {
    messages.pop();
    showError(error);
  }
  get('send').disabled = false;
  get('stop').disabled = true;
}

/** Every error of the engine says what happened and what to do. */
function showError(error) {
  get('error').textContent =
    error === null ? '' : error instanceof MillraceError ? `${error.message} (${error.code})` : String(error);
  get('retry').hidden = error === null || engine !== null;
}
