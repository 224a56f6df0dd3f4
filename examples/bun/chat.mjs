// A question on the command line, an answer from a model on this machine.
import process from 'node:process';
import { Engine } from 'millrace';

const [model, question = 'What is 17 plus 25?'] = process.argv.slice(2);
try {
  // A path, or a URL: then it is kept in the user's cache folder, and a later run needs no network.
  const engine = await Engine.load({ model });
  const answer = engine.generate([{ role: 'user', content: question }], { temperature: 0, maxTokens: 256 });
  for await (const delta of answer) process.stdout.write(delta);
  process.stdout.write('\n');
  engine.dispose();
} catch (error) {
  console.error(`error[${error.code}]: ${error.message}`);
  process.exitCode = 2;
}
