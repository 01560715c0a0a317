// A node restores a large folder, and the bar on the page moves while the files come.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { check } from '../stage.mjs';

export default async function play(stage, facts) {
  const { page } = stage;
  await stage.signIn(facts.login, facts.password);
  await stage.visit(`/nodes/web-1/restore?${new URLSearchParams({ filespace: facts.filespace, path: facts.inside })}`, 'web-1');
  await page.getByLabel(`Choose ${facts.inside}/slow`).check();
  await page.getByRole('button', { name: 'Restore at the node' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Another folder').check();
  const target = join(facts.home, 'restored slowly');
  await dialog.getByLabel('Folder at the node').fill(target);
  await dialog.getByRole('button', { name: 'Restore', exact: true }).click();
  await page.waitForURL(/\/events\/\d+/);
  const first = await moved(stage, 0);
  await stage.checkAccess('a restore at work');
  const second = await moved(stage, first);
  check(second <= 100, `a share of the whole: ${first} %, then ${second} %`);
  await page.getByText('Completed', { exact: true }).waitFor();
  const file = 'slow/folder-00/file-0017';
  check(readFileSync(join(target, file)).equals(readFileSync(join(facts.tree, file))), 'the file is restored');
}

/** Waits until the bar shows more than `share` percent. Fails if the work ends before. */
async function moved(stage, share) {
  const bar = stage.page.getByRole('progressbar', { name: 'Progress of the work' });
  for (;;) {
    // A bar that does not know the share yet has no value.
    const now = Number(await bar.getAttribute('aria-valuenow'));
    if (now > share) return now;
    await stage.page.waitForTimeout(100);
  }
}
