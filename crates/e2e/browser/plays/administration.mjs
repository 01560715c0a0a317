// Schedules, policies, people, tenants, keys and the log: each is looked at, made and changed.
import { check } from '../stage.mjs';

export default async function play(stage, facts) {
  await stage.signIn(facts.login, facts.password);
  await schedules(stage);
  await policies(stage);
  await people(stage);
  await tenants(stage);
  await keys(stage);
  await log(stage);
}

async function schedules(stage) {
  const { page } = stage;
  await stage.visit('/schedules', 'Schedules');
  await page.getByRole('button', { name: 'Make a schedule' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name').fill('nightly');
  const works = await dialog.getByLabel('Work', { exact: true }).locator('option').allInnerTexts();
  check(works.length === 20 && works.includes('Copy pools'), `each kind of work can be chosen: ${works}`);
  await dialog.getByLabel('Times').fill('25:00');
  await dialog.getByLabel('Days of the week').fill('mon-fri');
  await dialog.getByLabel('Time zone').fill('Europe/Berlin');
  await stage.checkAccess('the form of a schedule');
  stage.expected.add(400);
  await dialog.getByRole('button', { name: 'Make the schedule' }).click();
  await dialog.getByRole('alert').waitFor();
  await dialog.getByLabel('Times').fill('22:00');
  await dialog.getByText('Incremental is due at 22:00, mon-fri, Europe/Berlin').waitFor();
  await dialog.getByRole('button', { name: 'Make the schedule' }).click();
  await page.getByRole('heading', { level: 1, name: 'nightly' }).waitFor();
  await page.getByLabel('Kind of follower').selectOption('domain');
  await page.getByLabel('Name of the follower').fill('STANDARD');
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  check((await stage.agree('Add')).includes('domain STANDARD'), 'the question names the domain');
  await page.getByText('domain STANDARD', { exact: true }).first().waitFor();
  await overtaken(stage);
  await describe(page, 'Every working night');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await stage.message('Schedule nightly is changed.');
  await page.getByText('22:00, mon-fri, Europe/Berlin').first().waitFor();
  await stage.inspect('schedule');
  await stage.visit('/schedules', 'Schedules');
  await page.getByText('Every working night').waitFor();
  await stage.inspect('schedules');
  await page.getByLabel('Domain').selectOption('STANDARD');
  await page.getByText('No schedule belongs to this domain.').waitFor();
  await page.waitForURL(/\/schedules\?domain=STANDARD$/);
  await page.getByLabel('Domain').selectOption('All');
  await page.getByText('Every working night').waitFor();
}

/** Fills the description of the schedule in its form. */
async function describe(page, text) {
  await page.getByRole('button', { name: 'Change' }).click();
  await page.getByRole('dialog').getByLabel('Description').fill(text);
}

/** What somebody else has changed since the form was opened is not overwritten. */
async function overtaken(stage) {
  const { page } = stage;
  await describe(page, 'Written too late');
  const other = await stage.context.newPage();
  await other.goto('/schedules/nightly');
  await describe(other, 'Of somebody else');
  await other.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
  await other.getByRole('status').filter({ hasText: 'Schedule nightly is changed.' }).waitFor();
  await other.close();
  stage.expected.add(412);
  await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
  await stage.message('Somebody has changed this meanwhile, and nothing was done.');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  const { definition } = await (await stage.context.request.get('/v1/schedules/nightly')).json();
  check(definition.description === 'Of somebody else', `the other change stays: ${definition.description}`);
  await stage.quiet();
}

async function policies(stage) {
  const { page } = stage;
  await stage.visit('/policies', 'Policies');
  await stage.checkAccess('the list of policies');
  await page.getByRole('link', { name: 'STANDARD' }).click();
  await overtakenClass(stage);
  await page.getByRole('button', { name: 'Edit STANDARD' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Versions of an object that exists').fill('3');
  await stage.checkAccess('the form of a class');
  await dialog.getByRole('button', { name: 'Put into the draft' }).click();
  await page.getByRole('heading', { name: 'What the draft changes' }).waitFor();
  await page.getByText('3 versions of an object that exists').waitFor();
  await page.getByRole('button', { name: 'Simulate', exact: true }).click();
  await page.getByRole('table', { name: 'Expiry by node' }).getByText('web-1').waitFor();
  const counted = await (await stage.context.request.get('/v1/domains/STANDARD/policy/simulation')).json();
  // Folders above the tree may have as many versions: other tests make and remove folders in them.
  const folders = stage.facts.tree.split('/').length;
  check(
    counted.expired >= 5 && counted.expired <= 5 + folders && counted.is_complete,
    `the third old version of five files would go: ${JSON.stringify(counted)}`,
  );
  await page.getByText(`${counted.expired} versions of ${counted.examined} would expire`).waitFor();
  await stage.quiet();
  await stage.inspect('policy');
  await page.getByLabel('Days for versions without a class').fill('31');
  await page.getByRole('button', { name: 'Put into the draft' }).click();
  await stage.message('It holds for nobody before the draft is activated.');
  await page.getByText('versions for 31 days').waitFor();
  await stage.quiet();
  await page.getByRole('button', { name: 'Add a class' }).click();
  await dialog.getByLabel('Name', { exact: true }).fill('SHORT');
  await dialog.getByRole('button', { name: 'Put into the draft' }).click();
  await page.getByRole('button', { name: 'Remove SHORT' }).click();
  check((await stage.agree('Put into the draft')).includes('no longer has the class SHORT'), 'the question says what becomes of the class');
  await page.getByRole('button', { name: 'Remove SHORT' }).waitFor({ state: 'detached' });
  await stage.quiet();
  await page.getByRole('button', { name: 'Activate' }).click();
  await stage.agree('Activate');
  await stage.message('The draft is in force.');
  await page.getByRole('heading', { name: 'Draft', exact: true }).waitFor({ state: 'detached' });
}

/** A class that somebody else has changed since the form was opened is not overwritten. */
async function overtakenClass(stage) {
  const { page } = stage;
  const field = 'Days for inactive versions';
  await page.getByRole('button', { name: 'Edit STANDARD' }).click();
  await page.getByRole('dialog').getByLabel(field).fill('1');
  const other = await stage.context.newPage();
  await other.goto('/policies/STANDARD');
  await other.getByRole('button', { name: 'Edit STANDARD' }).click();
  await other.getByRole('dialog').getByLabel(field).fill('31');
  await other.getByRole('dialog').getByRole('button', { name: 'Put into the draft' }).click();
  await other.getByText('inactive ones for 31 days').waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Put into the draft' }).click();
  await stage.message('Somebody has changed this meanwhile, and nothing was done.');
  await page.getByText('inactive ones for 31 days').waitFor();
  await other.getByRole('button', { name: 'Discard' }).click();
  await other.getByRole('dialog').getByRole('button', { name: 'Discard' }).click();
  await other.getByRole('status').filter({ hasText: 'The draft is discarded.' }).waitFor();
  await other.close();
  await page.reload();
  await page.getByRole('heading', { level: 1, name: 'Policy of STANDARD' }).waitFor();
}

async function people(stage) {
  const { page } = stage;
  await stage.visit('/people', 'People, tenants and keys');
  await page.getByRole('button', { name: 'Register a person' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Login').fill('olga');
  await dialog.getByLabel('Name').fill('Olga Operator');
  await dialog.getByLabel('First password').fill('another correct horse');
  await dialog.getByRole('button', { name: 'Add', exact: true }).click();
  await dialog.getByText('operator (looks after the daily work)').waitFor();
  await stage.checkAccess('the form of a person');
  await dialog.getByRole('button', { name: 'Register' }).click();
  await stage.message('olga is registered.');
  await page.getByText('Olga Operator').waitFor();
  await stage.inspect('people');
  await page.getByRole('button', { name: 'Edit olga', exact: true }).click();
  await dialog.getByLabel('Mail').fill('olga@example.org');
  const sent = await changes(page, dialog.getByRole('button', { name: 'Save' }));
  check(sent === '{"mail":"olga@example.org"}', `only what differs is sent: ${sent}`);
  await stage.message('olga is changed.');
  await page.getByRole('button', { name: 'Lock olga', exact: true }).click();
  await stage.agree('Lock');
  await page.getByText('Locked', { exact: true }).waitFor();
}

async function tenants(stage) {
  const { page } = stage;
  await page.getByRole('link', { name: 'Tenants' }).click();
  await page.getByRole('button', { name: 'Add a tenant' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Domain').fill('LAB');
  await dialog.getByLabel('Tag').fill('lab');
  await dialog.getByLabel('Maximum number of nodes').fill('50');
  await dialog.getByRole('button', { name: 'Add', exact: true }).click();
  await page.getByText('0 of 50').waitFor();
  await page.getByRole('button', { name: 'Edit LAB', exact: true }).click();
  await dialog.getByLabel('Maximum size in GB').fill('1.5');
  const sent = await changes(page, dialog.getByRole('button', { name: 'Save' }));
  check(sent === '{"limits":{"bytes":1500000000}}', `only what differs is sent: ${sent}`);
  await stage.message('LAB is changed.');
  await stage.inspect('tenants');
}

/** Clicks a button that changes an object, and returns the change as it is sent. */
async function changes(page, button) {
  const [request] = await Promise.all([page.waitForRequest((one) => one.method() === 'PATCH'), button.click()]);
  return request.postData();
}

async function keys(stage) {
  const { page } = stage;
  await page.getByRole('link', { name: 'Keys', exact: true }).click();
  await page.getByRole('button', { name: 'Make a key' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Description').fill('for the report');
  await dialog.getByRole('button', { name: 'Make the key' }).click();
  const key = await dialog.locator('[data-secret=Key]').innerText();
  check(/^hf-\S+:\S+$/.test(key), 'the key has an id and a secret');
  const headers = { Authorization: `Token ${key}` };
  const answer = await stage.context.request.get('/v1/nodes', { headers });
  check(answer.ok(), `the key works: ${answer.status()}`);
  await dialog.getByRole('button', { name: 'Done' }).click();
  await page.getByText('for the report').waitFor();
  await stage.inspect('keys');
  const id = key.split(':')[0];
  await page.getByRole('button', { name: `Revoke ${id}` }).click();
  await stage.agree('Revoke');
  await stage.message(`${id} is revoked.`);
  const refused = await stage.context.request.get('/v1/nodes', { headers });
  check(refused.status() === 401, `a revoked key is refused: ${refused.status()}`);
  await keyOfAnother(stage);
}

/** Who administers others makes, sees and revokes their keys. */
async function keyOfAnother(stage) {
  const { page } = stage;
  const dialog = page.getByRole('dialog');
  await page.getByLabel('Keys of').selectOption('olga');
  await page.waitForURL(/user=olga/);
  await page.getByText('No key was made yet.').waitFor();
  await page.getByRole('button', { name: 'Make a key' }).click();
  check((await dialog.getByLabel('Person').inputValue()) === 'olga', 'the key is of the person that is shown');
  await dialog.getByLabel('Description').fill('of another person');
  await dialog.getByRole('button', { name: 'Make the key' }).click();
  const id = (await dialog.locator('[data-secret=Key]').innerText()).split(':')[0];
  await dialog.getByRole('button', { name: 'Done' }).click();
  await page.getByText('of another person').waitFor();
  await page.getByRole('button', { name: `Revoke ${id}` }).click();
  await stage.agree('Revoke');
  await stage.message(`${id} is revoked.`);
}

async function log(stage) {
  const { page } = stage;
  await stage.visit('/log', 'Log');
  await page.getByLabel('Text').fill('nightly');
  await page.getByRole('button', { name: 'Show' }).click();
  await page.waitForURL(/text=nightly/);
  await page.getByText('schedule').first().waitFor();
  await stage.visit('/log', 'Log');
  await page.getByLabel('What', { exact: true }).fill('policy activated');
  await page.getByRole('button', { name: 'Show' }).click();
  await page.getByText('Rows 1 to 1', { exact: true }).waitFor();
  await stage.visit('/log', 'Log');
  await stage.inspect('log');
  // A phone has no room for columns of single words: they are above the details.
  const entries = page.getByRole('table', { name: 'Activity log' });
  await stage.onPhone(async () => {
    check(!(await entries.getByRole('columnheader', { name: 'What' }).isVisible()), 'a phone has no column for it');
    check(await entries.getByText(/^by /).first().isVisible(), 'a phone shows who did it');
  });
}
