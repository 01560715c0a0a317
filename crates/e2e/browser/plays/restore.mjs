// Bringing files back: two times are browsed and compared, versions are seen, a file and a folder
// are downloaded and compared, and the node restores a folder while the page shows how far it is.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { check } from '../stage.mjs';

export default async function play(stage, facts) {
  const { page } = stage;
  await stage.signIn(facts.login, facts.password);
  await stage.visit(`/nodes/web-1/restore?${new URLSearchParams({ filespace: facts.filespace, path: facts.inside })}`, 'web-1');
  await page.getByRole('link', { name: 'folder-00', exact: true }).waitFor();
  await stage.inspect('restore');
  await browse(stage, facts);
  await compare(stage);
  await search(stage, facts);
  await folder(stage, facts);
  await atNode(stage, facts);
  await odd(stage, facts);
}

async function browse(stage, facts) {
  const { page } = stage;
  await page.getByRole('link', { name: 'folder-00', exact: true }).click();
  const now = await stage.download(() => page.getByRole('link', { name: 'Download file-0007', exact: true }).click());
  check(now.equals(readFileSync(join(facts.tree, 'folder-00/file-0007'))), 'the file is as it is now');
  await page.getByRole('button', { name: 'Versions of file-0007' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('Inactive').first().waitFor();
  check((await dialog.getByText('Active', { exact: true }).count()) === 1, 'one version is active');
  await stage.checkAccess('the versions of a file');
  await dialog.getByRole('button', { name: 'Close' }).last().click();
  await page.getByRole('button', { name: 'Backup before' }).click();
  await page.waitForURL(/at=/);
  await page.getByRole('button', { name: 'Backup before' }).click();
  await stage.quiet();
  const before = await stage.download(() => page.getByRole('link', { name: 'Download file-0007', exact: true }).click());
  check(before.equals(Buffer.from(facts.before, 'base64')), 'the file is as it was at the first backup');
  await page.getByRole('button', { name: 'Now', exact: true }).click();
  await page.getByText('Shown as the last backups saw it.').waitFor();
}

async function compare(stage) {
  const { page } = stage;
  await page.getByRole('button', { name: 'Compare two times' }).click();
  await page.getByRole('heading', { name: 'Compare with' }).waitFor();
  const table = page.getByRole('table', { name: 'Differences' });
  await table.getByText('Changed').first().waitFor();
  await table.getByText('Added').first().waitFor();
  await table.getByText('Removed').first().waitFor();
  await stage.inspect('restore-compare');
  // What was removed leads to its folder as it was.
  await table.getByRole('row').filter({ hasText: 'Removed' }).filter({ hasText: 'file-0009' }).getByRole('link').click();
  await page.getByRole('link', { name: 'Download file-0009' }).waitFor();
  await page.goBack();
  await page.getByRole('button', { name: 'End the comparison' }).click();
}

async function search(stage, facts) {
  const { page } = stage;
  await page.getByLabel('Search in the filespace').fill('file-0007');
  await page.getByRole('button', { name: 'Search', exact: true }).click();
  const found = page.getByRole('table', { name: 'Objects found' });
  await found.getByText(`${facts.inside}/folder-00/file-0007`).waitFor();
  await found.locator('tbody tr').nth(1).waitFor({ state: 'detached' });
  await deleted(stage, facts);
  await page.getByRole('button', { name: 'Back to the folder' }).click();
}

/** An object that is gone is found without its time, with its content, and leads to the folder as it was. */
async function deleted(stage, facts) {
  const { page } = stage;
  const found = page.getByRole('table', { name: 'Objects found' });
  const path = `${facts.inside}/folder-00/file-0009`;
  await page.getByLabel('Search in the filespace').fill('file-0009');
  await page.getByRole('button', { name: 'Search', exact: true }).click();
  await found.getByText('Nothing has such a name at this time.').waitFor();
  await page.getByLabel('Deleted objects and older versions, too').check();
  await page.getByRole('button', { name: 'Search', exact: true }).click();
  await page.waitForURL(/all=yes/);
  await found.getByText('Until').waitFor();
  await stage.checkAccess('a search at all times');
  const content = await stage.download(() => found.getByRole('link', { name: 'Download file-0009' }).click());
  check(content.equals(Buffer.from(facts.gone, 'base64')), 'the deleted file is as it was');
  check((await found.getByRole('checkbox').count()) === 0, 'objects of several times are not restored together');
  await found.getByRole('link', { name: path, exact: true }).click();
  await page.waitForURL(/at=/);
  await page.getByRole('table', { name: 'Objects of the folder' }).getByRole('link', { name: 'Download file-0009' }).waitFor();
  await page.goBack();
  await found.getByRole('link', { name: path, exact: true }).waitFor();
}

async function folder(stage, facts) {
  const { page } = stage;
  await page.getByRole('navigation', { name: 'Folder' }).getByRole('link', { name: facts.inside.split('/').at(-1), exact: true }).click();
  await unpacked(stage, facts, 'Tar', (packed, out) => execFileSync('tar', ['--extract', '--file', packed, '--directory', out]));
  await unpacked(stage, facts, 'Zip', (packed, out) => execFileSync('python3', ['-m', 'zipfile', '--extract', packed, out]));
}

/** Downloads a folder as an archive of a kind, and compares a file of it. */
async function unpacked(stage, facts, kind, unpack) {
  const archive = await stage.download(() => stage.page.getByRole('link', { name: `${kind} folder-00`, exact: true }).click());
  const [packed, out] = [join(facts.home, `folder.${kind}`), join(facts.home, `unpacked ${kind}`)];
  writeFileSync(packed, archive);
  mkdirSync(out);
  unpack(packed, out);
  const name = ['file-0003', 'folder-00/file-0003'].find((one) => existsSync(join(out, one)));
  check(name && readFileSync(join(out, name)).equals(readFileSync(join(facts.tree, 'folder-00/file-0003'))), `${kind}: the folder is as it is now`);
}

async function atNode(stage, facts) {
  const { page } = stage;
  await page.getByLabel(`Choose ${facts.inside}/folder-00`).check();
  await page.getByRole('button', { name: 'Restore at the node' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Another folder').check();
  const target = join(facts.home, 'restored');
  await dialog.getByLabel('Folder at the node').fill(target);
  await dialog.getByText(`They appear below ${target}.`).waitFor();
  await stage.checkAccess('the form of a restore');
  await dialog.getByRole('button', { name: 'Restore', exact: true }).click();
  await page.waitForURL(/\/events\/\d+/);
  await page.getByText('Completed', { exact: true }).waitFor();
  const path = join(target, 'folder-00/file-0007');
  check(readFileSync(path).equals(readFileSync(join(facts.tree, 'folder-00/file-0007'))), 'the file is restored');
}

/** Names that are not UTF-8 are shown, browsed, searched, downloaded and restored as others. */
async function odd(stage, facts) {
  const { page } = stage;
  const expected = Buffer.from(facts.odd, 'base64');
  await stage.visit(`/nodes/web-1/restore?${new URLSearchParams({ filespace: facts.filespace, path: facts.inside })}`, 'web-1');
  await page.getByRole('link', { name: 'caf\\xe9', exact: true }).click();
  await page.getByRole('navigation', { name: 'Folder' }).getByRole('link', { name: 'caf\\xe9', exact: true }).waitFor();
  await deceit(stage);
  const file = await stage.download(() => page.getByRole('link', { name: 'Download na\\xefve', exact: true }).click());
  check(file.equals(expected), 'a file whose name is no text is as it is now');
  await page.getByRole('button', { name: 'Versions of na\\xefve' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('Active', { exact: true }).waitFor();
  await dialog.getByRole('button', { name: 'Close' }).last().click();
  await page.getByRole('button', { name: 'Compare two times' }).click();
  await page.getByRole('table', { name: 'Differences' }).getByText(`${facts.inside}/caf\\xe9/na\\xefve`, { exact: true }).waitFor();
  await page.getByRole('button', { name: 'End the comparison' }).click();
  await page.getByLabel('Search in the filespace').fill('na?ve');
  await page.getByRole('button', { name: 'Search', exact: true }).click();
  await page.getByRole('table', { name: 'Objects found' }).getByText(`${facts.inside}/caf\\xe9/na\\xefve`).waitFor();
  await page.getByRole('button', { name: 'Back to the folder' }).click();
  const target = join(facts.home, 'restored oddly');
  await page.getByLabel(`Choose ${facts.inside}/caf\\xe9/na\\xefve`).check();
  await page.getByRole('button', { name: 'Restore at the node' }).click();
  await dialog.getByLabel('Another folder').check();
  await dialog.getByLabel('Folder at the node').fill(target);
  await dialog.getByRole('button', { name: 'Restore', exact: true }).click();
  await page.waitForURL(/\/events\/\d+/);
  await page.getByText('Completed', { exact: true }).waitFor();
  const name = Buffer.concat([Buffer.from(`${target}/na`), Buffer.from([0xef]), Buffer.from('ve')]);
  check(readFileSync(name).equals(expected), 'the file is restored under its name');
}

/** A name that turns text around and clears a terminal does neither, on the page and in its tables. */
async function deceit(stage) {
  const { page } = stage;
  const name = '\\xe2\\x80\\xaegpj.exe\\x1b[2J';
  await page.getByText(name, { exact: true }).first().waitFor();
  const csv = (await stage.download(() => page.getByRole('button', { name: 'Export CSV' }).click())).toString();
  check(csv.includes(name) && !csv.includes('\u001b') && !csv.includes('\u202e'), csv);
}
