// The service is run from the page: option sets, enrolment keys, reports, the archive for a
// machine, libraries, pools, volumes and identities; the servers, and the platforms and applications
// of nodes; and what an auditor and a tenant may not do.
import { execFileSync } from 'node:child_process';
import { check } from '../stage.mjs';

export default async function play(stage, facts) {
  await stage.signIn(facts.login, facts.password);
  await optionSets(stage);
  await enrolment(stage, facts);
  await reports(stage);
  await machine(stage);
  await library(stage, facts);
  await volumes(stage);
  await identities(stage, facts);
  await words(stage);
  await auditor(stage, facts);
  await tenant(stage, facts);
}

async function optionSets(stage) {
  const { page } = stage;
  await stage.visit('/option-sets', 'Option sets');
  await page.getByRole('button', { name: 'Make an option set' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name', { exact: true }).fill('linux');
  await dialog.getByRole('button', { name: 'Add an option' }).click();
  await dialog.getByLabel('Name of option 1').fill('compression');
  await dialog.getByLabel('Value of option 1').fill('9');
  await dialog.getByLabel('Statements').fill('exclude /.../*.tmp');
  await dialog.getByLabel('Comment').fill('for all servers');
  await stage.checkAccess('the form of an option set');
  await dialog.getByRole('button', { name: 'Make the option set' }).click();
  await page.getByRole('heading', { name: 'Version 1, in force' }).waitFor();
  for (const node of ['web-1', 'web-2']) await give(stage, node);
  await stage.visit('/option-sets/linux', 'linux');
  await page.getByRole('table', { name: 'Nodes of linux' }).getByText('web-2').waitFor();
  await change(stage);
  await stage.visit('/option-sets', 'Option sets');
  await page.getByText('as version 1').waitFor();
  await stage.inspect('option-sets');
}

/** Gives the option set to a node. */
async function give(stage, node) {
  const { page } = stage;
  await stage.visit(`/nodes/${node}`, node);
  await page.getByRole('button', { name: 'Edit', exact: true }).click();
  await page.getByRole('dialog').getByLabel('Option set').fill('linux');
  await page.getByRole('dialog').getByRole('button', { name: 'Save the changes' }).click();
  await stage.message(`${node} is changed.`);
}

/** Makes a version for a part of the nodes, gives it to all, and brings the first one back. */
async function change(stage) {
  const { page } = stage;
  const dialog = page.getByRole('dialog');
  await page.getByRole('button', { name: 'Make a version' }).click();
  await dialog.getByLabel('Value of option 1').fill('12');
  await dialog.getByLabel('Forced option 1').check();
  await dialog.getByLabel('Comment').fill('smaller');
  await dialog.getByLabel('Share of the nodes').fill('50%');
  await dialog.getByRole('button', { name: 'Show what changes' }).click();
  await dialog.getByText('Option compression = 12, forced; before: 9.').waitFor();
  await dialog.getByText('1 node of 2 gets version 2 first: web-').waitFor();
  await stage.checkAccess('what a version changes');
  await dialog.getByRole('button', { name: 'Make the version' }).click();
  await page.getByRole('heading', { name: 'Version 2, at 50 % of the nodes' }).waitFor();
  check(await page.getByRole('button', { name: 'Make a version' }).isDisabled(), 'a version is decided about before the next');
  await stage.quiet();
  await stage.inspect('option-set');
  await page.getByRole('button', { name: 'Give it to all' }).click();
  check((await stage.agree('Give it to all')).includes('1 further node gets version 2'), 'the question counts the nodes');
  await page.getByRole('heading', { name: 'Version 2, in force' }).waitFor();
  await page.getByRole('button', { name: 'Bring back version 1' }).click();
  check((await stage.agree('Bring it back')).includes('before: 12, forced'), 'the question says what changes');
  await page.getByRole('heading', { name: 'Version 3, in force' }).waitFor();
}

async function enrolment(stage, facts) {
  const { page } = stage;
  await stage.visit('/people?view=enrolment', 'People, tenants and keys');
  await page.getByRole('button', { name: 'Make an enrolment key' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name', { exact: true }).fill('rollout');
  await dialog.getByLabel('Maximum number of nodes').fill('5');
  await dialog.getByLabel('Labels').fill('web berlin');
  await dialog.getByLabel('Pattern of names').fill('web-*');
  await dialog.getByLabel('Option set').selectOption('linux');
  await dialog.getByText('5 machines into nodes of STANDARD, for 7 days').waitFor();
  await stage.checkAccess('the form of an enrolment key');
  await dialog.getByRole('button', { name: 'Make the key' }).click();
  const command = await dialog.locator('[data-secret=Command]').innerText();
  const [program, ...words] = command.split(' ');
  check(program === 'holdfast' && words[0] === 'enroll', `the command is one of the program: ${command}`);
  execFileSync(facts.program, [...words, '--name', 'web-9', '--home', facts.home]);
  await dialog.getByRole('button', { name: 'Done' }).click();
  await page.getByText('1 of 5', { exact: true }).waitFor();
  await stage.inspect('enrolment-keys');
  await page.getByLabel('Domain').selectOption(facts.domain);
  await page.getByText('No enrolment key is for this domain.').waitFor();
  await page.waitForURL(new RegExp(`view=enrolment&domain=${facts.domain}$`));
  await page.getByLabel('Domain').selectOption('STANDARD');
  await page.getByText('1 of 5', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Revoke rollout' }).click();
  check((await stage.agree('Revoke')).includes('The 1 node that it has enrolled stays.'), 'the question says that nodes stay');
  await stage.message('rollout is revoked.');
  await page.getByText('Revoked', { exact: true }).waitFor();
  await move(stage, facts);
}

/** Gives the new node another name, and to the domain of the tenant. */
async function move(stage, facts) {
  const { page } = stage;
  const dialog = page.getByRole('dialog');
  await stage.visit('/nodes/web-9', 'web-9');
  await page.getByRole('button', { name: 'Edit', exact: true }).click();
  await dialog.getByLabel('Name', { exact: true }).fill('lab-9');
  await dialog.getByLabel('Domain').selectOption(facts.domain);
  await dialog.getByText('the people of that domain see the node and its files').waitFor();
  await dialog.getByRole('button', { name: 'Save the changes' }).click();
  await page.getByRole('heading', { level: 1, name: 'lab-9' }).waitFor();
  await page.waitForURL(/\/nodes\/lab-9$/);
}

async function reports(stage) {
  const { page } = stage;
  await stage.visit('/reports?domain=STANDARD', 'Reports');
  const table = page.getByRole('table', { name: /^Report of STANDARD in \d{4}-\d\d$/ });
  await table.getByRole('link', { name: 'web-1' }).waitFor();
  await stage.inspect('reports');
  const csv = String(await stage.download(() => page.getByRole('link', { name: 'Download as a table' }).click()));
  check(csv.startsWith('month,domain,node,') && csv.includes(',STANDARD,web-1,'), csv);
  const html = String(await stage.download(() => page.getByRole('link', { name: 'Download as a page' }).click()));
  check(html.includes('<h1>Backup of STANDARD in '), html.slice(0, 500));
  await page.getByLabel('Month').fill('2020-02');
  await page.getByLabel('Month').blur();
  await page.waitForURL(/month=2020-02/);
  await page.getByRole('heading', { name: 'Nodes of STANDARD in 2020-02' }).waitFor();
}

/** The archive with which a machine becomes a node, the removal of a filespace, and the archives of a node. */
async function machine(stage) {
  const { page } = stage;
  await stage.visit('/nodes/web-2', 'web-2');
  await page.getByRole('button', { name: 'Archive for a machine' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Days for which the token works').fill('2');
  await dialog.getByText('It works once, within 2 days.').waitFor();
  await stage.checkAccess('the form of an archive for a machine');
  const tar = await stage.download(() => dialog.getByRole('button', { name: 'Download' }).click());
  for (const name of ['client.toml', 'ca.pem', 'token', 'enroll.sh']) check(tar.includes(`holdfast/${name}`), `the archive has ${name}`);
  await stage.message('web-2-config.tar is downloaded.');
  const { filespaces } = await (await stage.context.request.get('/v1/nodes/web-2')).json();
  await page.getByRole('button', { name: `Remove ${filespaces[0].name}`, exact: true }).click();
  await dialog.getByLabel(`Type ${filespaces[0].name} to go on`).fill(filespaces[0].name);
  check((await stage.agree('Remove with all versions')).includes('Archives stay.'), 'the question says what stays');
  await page.getByText('No filespace was backed up yet.').waitFor();
  await stage.visit('/nodes/web-1/archives', 'web-1');
  await page.getByText('the tree of the play').waitFor();
  await stage.inspect('node-archives');
  // A filespace of an archive leads to its files.
  await page.getByRole('row', { name: /the tree of the play/ }).getByRole('link').first().click();
  await page.getByText('These are the files of archive').waitFor();
  await page.getByRole('table', { name: 'Objects of the folder' }).getByRole('link').first().waitFor();
  await stage.checkAccess('the files of an archive');
}

async function library(stage, facts) {
  const { page } = stage;
  await stage.visit('/pools', 'Pools and volumes');
  await page.getByRole('button', { name: 'Add a library' }).click();
  const dialog = page.getByRole('dialog');
  await stage.checkAccess('the form of a library with a changer');
  await dialog.getByLabel('Name').fill('files');
  await dialog.getByLabel('Kind').selectOption('folder');
  await dialog.getByLabel('Folder').fill(facts.folder);
  await dialog.getByLabel('Size of each volume').fill('0.1');
  await dialog.getByRole('button', { name: 'Add', exact: true }).click();
  await stage.message('Library files is added.');
  await page.getByText('No volume has a label yet').waitFor();
  const library = page.getByRole('region', { name: 'Library files' });
  await library.getByRole('button', { name: 'Label volumes' }).click();
  await dialog.getByLabel('Names').fill('A00001 A00002');
  await stage.checkAccess('the form of labels');
  await dialog.getByRole('button', { name: 'Label', exact: true }).click();
  await stage.message('2 volumes of files are labelled.');
  await library.getByRole('list', { name: 'Volumes' }).getByRole('listitem').nth(1).waitFor();
  await library.getByRole('button', { name: 'Settings' }).click();
  await dialog.getByLabel('Seconds that a volume stays mounted').fill('5');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await stage.message('Library files is changed.');
  await pool(stage);
}

/** Makes a copy pool on the volumes, and fills it. */
async function pool(stage) {
  const { page } = stage;
  const dialog = page.getByRole('dialog');
  await page.getByRole('button', { name: 'Make a pool' }).click();
  await dialog.getByLabel('Name').fill('TAPE');
  await dialog.getByLabel('Place').fill('tape:files');
  await dialog.getByLabel('The pool keeps copies').check();
  await dialog.getByText('The pool gets copies of all packs.').waitFor();
  await stage.checkAccess('the form of a pool');
  await dialog.getByRole('button', { name: 'Make the pool' }).click();
  await stage.message('Pool TAPE is made.');
  await page.getByRole('button', { name: 'Edit pool TAPE' }).click();
  await dialog.getByLabel('Empty a volume when this %').fill('40');
  await dialog.getByText('Volumes are emptied once 40 % of their data is no longer needed.').waitFor();
  await dialog.getByRole('button', { name: 'Save' }).click();
  await stage.message('Pool TAPE is changed.');
  await page.getByRole('button', { name: 'Task of pool TAPE' }).click();
  // The form takes the pool once the list of pools is there.
  await dialog.getByLabel('Pool').locator('option', { hasText: 'TAPE' }).waitFor({ state: 'attached' });
  check((await dialog.getByLabel('Pool').inputValue()) === 'TAPE', 'the task is about the pool');
  await begin(stage);
}

/** Starts the task of the form, and waits until it has ended well. */
async function begin(stage) {
  const { page } = stage;
  await page.getByRole('dialog').getByRole('button', { name: 'Start now' }).click();
  await page.waitForURL(/\/events\/\d+/);
  await page.getByText('Completed', { exact: true }).waitFor();
}

async function volumes(stage) {
  const { page } = stage;
  const dialog = page.getByRole('dialog');
  await stage.visit('/pools', 'Pools and volumes');
  const rows = page.getByRole('table', { name: 'Volumes' }).locator('tbody tr');
  await rows.filter({ hasText: 'Filling' }).first().waitFor();
  await stage.inspect('volumes', page.getByRole('region', { name: 'Volumes', exact: true }));
  const name = await rows.filter({ hasText: 'Filling' }).first().locator('strong').innerText();
  await page.getByRole('button', { name: `Task of volume ${name}` }).click();
  check((await dialog.getByLabel('Volumes, with blanks').inputValue()) === name, 'the task is about the volume');
  await stage.checkAccess('the form of a task of a volume');
  await begin(stage);
  await stage.visit('/pools', 'Pools and volumes');
  // The spare volume goes first: once the other one is read-only, the server may write on it.
  const spare = rows.filter({ hasText: 'Scratch' });
  const word = await spare.locator('strong').innerText();
  await spare.getByRole('button', { name: /^Remove volume/ }).click();
  await dialog.getByLabel(`Type ${word} to go on`).fill(word);
  await stage.agree('Remove');
  await stage.message(`Volume ${word} is removed.`);
  await page.getByRole('button', { name: `Change volume ${name}` }).click();
  await dialog.getByText('nothing more is written on it').waitFor();
  await stage.checkAccess('the form of a volume');
  await dialog.getByRole('button', { name: 'Change', exact: true }).click();
  await stage.message(`Volume ${name} is changed.`);
  await rows.filter({ hasText: name }).getByText('read-only').waitFor();
  await page.getByText('Copies of the catalogue').first().waitFor();
  await stage.visit('/running', 'Running');
  await page.getByText('No restore was ordered in the last week.').waitFor();
}

async function identities(stage, facts) {
  const { page } = stage;
  await stage.visit('/people', 'People, tenants and keys');
  await page.getByRole('button', { name: `Edit ${facts.auditor}` }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Address of the provider').fill(facts.issuer);
  await dialog.getByLabel('Subject at the provider').fill('f3c9');
  await dialog.getByRole('button', { name: 'Add the identity' }).click();
  await dialog.getByText('The change of the identities ends all sign-ins of the person.').waitFor();
  await stage.checkAccess('the identities of a person');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await stage.message(`${facts.auditor} is changed.`);
}

/** The servers, and the words of nodes, each of which leads to its nodes. */
async function words(stage) {
  const { page } = stage;
  const dialog = page.getByRole('dialog');
  await stage.visit('/service', 'Service');
  await page.getByText('No node names an application yet').waitFor();
  await stage.visit('/nodes/web-1', 'web-1');
  await page.getByRole('button', { name: 'Edit', exact: true }).click();
  await dialog.getByLabel('Platform').fill('Linux');
  await dialog.getByLabel('Application').fill('database');
  await dialog.getByRole('button', { name: 'Save the changes' }).click();
  await stage.message('web-1 is changed.');
  for (const [list, word, filter] of [['Platforms', 'Linux', 'platform'], ['Applications', 'database', 'application']]) {
    await stage.visit('/service', 'Service');
    await page.getByRole('list', { name: list }).getByRole('link', { name: word, exact: true }).click();
    await page.waitForURL(new RegExp(`/nodes\\?${filter}=${word}$`));
    await page.getByRole('link', { name: 'web-1', exact: true }).waitFor();
    const rows = page.getByRole('table', { name: 'Nodes' }).locator('tbody tr');
    check((await rows.count()) === 1, `one node has the ${filter} ${word}`);
  }
  await page.getByLabel('Application').focus();
  await page.locator('#applications option[value=database]').waitFor({ state: 'attached' });
  await stage.visit('/service', 'Service');
  await page.getByRole('table', { name: 'Servers' }).getByText('Shows this page').waitFor();
  await page.getByRole('columnheader', { name: 'Backups now' }).waitFor();
  await page.getByRole('columnheader', { name: 'Nodes connected' }).waitFor();
  const all = await page.getByRole('region', { name: 'All servers together' }).innerText();
  check(/Nodes\s+3\b/.test(all) && all.includes('Pool PRIMARY') && all.includes('Pool TAPE'), `the use of all servers is shown: ${all}`);
  await stage.inspect('service');
}

/** An auditor reads everything, and is offered no change. */
async function auditor(stage, facts) {
  await stage.enter();
  await stage.signIn(facts.auditor, facts.password);
  const { page } = stage;
  const offers = async (name) => (await page.getByRole('button', { name }).count()) > 0;
  await stage.visit('/pools', 'Pools and volumes');
  await page.getByRole('table', { name: 'Volumes' }).getByText('TAPE', { exact: true }).first().waitFor();
  check(!(await offers(/^(Make a pool|Add a library|Label volumes|(Edit|Task|Remove|Change) .*)$/)), 'an auditor changes no storage');
  await stage.visit('/option-sets/linux', 'linux');
  check(!(await offers(/^(Make a version|Remove|Bring back .*)$/)), 'an auditor changes no option set');
  await stage.visit('/nodes/web-1', 'web-1');
  check(!(await offers(/^(Run now|Lock|New token|Archive for a machine|Edit|Remove.*)$/)), 'an auditor changes no node');
  await stage.visit('/people', 'People, tenants and keys');
  check(!(await page.getByRole('link', { name: 'Enrolment keys' }).isVisible()), 'an auditor sees no enrolment keys');
  check(!(await offers(/^(Register a person|(Edit|Lock|Remove) .*)$/)), 'an auditor changes no people');
  await stage.visit(`/people?view=keys&user=${facts.login}`, 'People, tenants and keys');
  await page.getByText('Valid', { exact: true }).first().waitFor();
  check(!(await offers(/^Revoke .*$/)), 'an auditor revokes no keys of others');
  await stage.visit('/nodes', 'Nodes');
  check(!(await offers('Register a node')) && (await page.getByRole('checkbox').count()) === 0, 'an auditor chooses no nodes for a change');
  await stage.visit('/alerts', 'Alerts');
  check((await page.getByRole('checkbox').count()) === 0, 'an auditor chooses no alerts for a change');
  await stage.visit('/running', 'Running');
  check(!(await offers(/^(Start a task|End .*|Cancel .*)$/)), 'an auditor begins and ends no work');
}

/** A tenant sees the enrolment keys and the report of the own domain, and nothing of the storage. The tenant's schedules are the domain's. */
async function tenant(stage, facts) {
  await stage.enter();
  await stage.signIn(facts.tenant, facts.password);
  const { page } = stage;
  await stage.visit('/people?view=enrolment', 'People, tenants and keys');
  await page.getByText('No enrolment key was made yet.').waitFor();
  await stage.visit('/reports', 'Reports');
  const domains = await page.getByLabel('Domain').locator('option').allInnerTexts();
  check(domains.join() === facts.domain, `a tenant has the report of its domain: ${domains}`);
  await stage.visit('/option-sets/linux', 'linux');
  const nodes = page.getByRole('table', { name: 'Nodes of linux' }).getByRole('link');
  await nodes.first().waitFor();
  check((await nodes.allInnerTexts()).join() === 'lab-9', 'a tenant sees an option set with its own nodes');
  check((await page.getByRole('button', { name: 'Make a version' }).count()) === 0, 'a tenant changes no option set');
  check(!(await page.getByRole('link', { name: 'Pools and volumes' }).isVisible()), 'a tenant sees no storage');
  await stage.visit('/schedules', 'Schedules');
  await page.getByRole('button', { name: 'Make a schedule' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name').fill('lab-noon');
  check(!(await dialog.getByRole('option', { name: 'Expire' }).count()), 'a tenant lets the server do no work');
  await dialog.getByRole('button', { name: 'Make the schedule' }).click();
  await page.getByRole('heading', { level: 1, name: 'lab-noon' }).waitFor();
  await page.getByText(facts.domain, { exact: true }).first().waitFor();
  await page.getByRole('button', { name: 'Change', exact: true }).waitFor();
  await stage.visit(`/schedules?domain=${facts.domain}`, 'Schedules');
  await page.getByRole('link', { name: 'lab-noon' }).waitFor();
  await stage.visit('/service', 'Service');
  await page.getByText('No node names an application yet').waitFor();
  check(!(await page.getByRole('columnheader', { name: /^(Backups now|Nodes connected)$/ }).count()), 'a tenant does not see what the servers have to do');
  check(!(await page.getByText('All servers together').count()), 'a tenant does not see how many nodes there are');
  await customer(stage, facts);
}

/** A tenant registers a customer, and is offered the roles and the domain that it may give. */
async function customer(stage, facts) {
  const { page } = stage;
  const dialog = page.getByRole('dialog');
  const offered = async (label) => (await dialog.getByLabel(label).locator('option').allInnerTexts()).join();
  await stage.visit('/people', 'People, tenants and keys');
  await page.getByRole('button', { name: 'Register a person' }).click();
  await dialog.getByLabel('Where').locator('option').first().waitFor({ state: 'attached' });
  const [roles, places] = [await offered('Role'), await offered('Where')];
  check(roles === 'owner,tenant' && places === `in ${facts.domain}`, `a tenant gives roles in its domain: ${roles} ${places}`);
  await dialog.getByLabel('Login').fill('carla');
  await dialog.getByText('The person needs a role in your domain').waitFor();
  await dialog.getByRole('button', { name: 'Add', exact: true }).click();
  await dialog.getByRole('button', { name: 'Register' }).click();
  await stage.message('carla is registered.');
  await page.getByText(`owner@${facts.domain}`, { exact: true }).waitFor();
}
