// Pools, and a library with its drives, its volumes and those who wait for them.
import { writeFileSync } from 'node:fs';
import { check } from '../stage.mjs';

export default async function play(stage, facts) {
  const { page } = stage;
  await stage.signIn(facts.login, facts.password);
  await stage.visit('/pools', 'Pools and volumes');
  await page.getByText('Available').first().waitFor();
  // The readers of the library come now.
  writeFileSync(facts.mark, '');
  const library = page.getByRole('region', { name: 'Library vault' });
  const queue = page.getByRole('table', { name: 'Recall queue' });
  const showsReaders = async () => {
    for (const node of ['web-1', 'web-2']) await queue.getByText(node, { exact: true }).waitFor();
  };
  await showsReaders();
  await library.getByRole('list', { name: 'Drives' }).getByText(/^A0000\dL8$/).first().waitFor();
  // The readers are served while the play goes on, so their picture comes before all else.
  await showsReaders();
  await stage.inspect('library', library);
  const slots = library.getByRole('list', { name: 'Slots' }).getByRole('listitem');
  await slots.first().waitFor();
  // A volume lies in a slot, or is mounted and so in none.
  const placed = (await slots.filter({ hasText: /A0000\dL8/ }).count()) + (await library.getByRole('list', { name: 'Volumes' }).getByRole('listitem').count());
  check(placed === facts.volumes, `each volume has its place: ${placed}`);
  check((await slots.filter({ hasText: /Slot \d+: empty/ }).count()) > 0, 'empty slots are shown');
  const legend = library.getByRole('list', { name: 'Legend' });
  const hasDoor = (await slots.filter({ hasText: /Door \d+/ }).count()) > 0;
  check((await legend.getByText('door', { exact: false }).count() > 0) === hasDoor, 'the legend says what a door is');
  await stage.inspect('pools');
  await seesActions(stage);
  await page.getByRole('link', { name: /^\d+ volumes?$/ }).click();
  await page.getByText('Only of pool TAPE').waitFor();
  const volumes = page.getByRole('table', { name: 'Volumes' });
  check((await volumes.getByText('TAPE', { exact: true }).count()) > 0, 'volumes of the pool are listed');
  await stage.checkAccess('the volumes of a pool');
}

/** What can be done with a pool is in sight on a phone, though its row is wider. */
async function seesActions(stage) {
  const pools = stage.page.getByRole('table', { name: 'Pools' });
  await stage.seesOnPhone(pools.getByRole('button', { name: 'Edit' }).first());
}
