// Plays one script in a browser: node play.mjs NAME FACTS.json. Its answer is the last line.
import { readFileSync } from 'node:fs';
import { Stage } from './stage.mjs';

const [name, path] = process.argv.slice(2);
const facts = JSON.parse(readFileSync(path, 'utf8'));
const { default: play } = await import(`./plays/${name}.mjs`);
const stage = await Stage.open(facts);
try {
  const answer = await play(stage, facts);
  await stage.close();
  console.log(JSON.stringify(answer ?? null));
} catch (error) {
  await stage.fail(error);
  process.exit(1);
}
