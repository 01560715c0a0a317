// Signing in, the overview, the list of nodes, and a machine that becomes a node by the shown token.
import { execFileSync } from 'node:child_process';
import { check } from '../stage.mjs';

export default async function play(stage, facts) {
  const { page } = stage;
  stage.expected.add(401);
  await page.goto('/nodes?label=web');
  await page.getByLabel('Login').waitFor();
  await stage.inspect('sign-in');
  await page.getByLabel('Login').fill(facts.login);
  await page.getByLabel('Password').fill('wrong');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('alert').filter({ hasText: 'not valid' }).waitFor();
  await stage.signIn(facts.login, facts.password);
  check(page.url().endsWith('/nodes?label=web'), `the address has survived: ${page.url()}`);
  await page.getByText('No node meets these conditions.').waitFor();
  await overview(stage);
  await list(stage);
  await register(stage, facts);
  await refusedToLeave(stage);
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('Login').waitFor();
}

/** A person whom the server has not signed out is told so. */
async function refusedToLeave(stage) {
  const { page } = stage;
  const problem = { type: '/problems/busy', title: 'Busy', status: 503, detail: 'the server is busy', code: 'busy' };
  stage.expected.add(503);
  await page.route(/\/v1\/sign-out$/, (route) => route.fulfill({ status: 503, contentType: 'application/problem+json', body: JSON.stringify(problem) }));
  await page.getByRole('button', { name: 'Sign out' }).click();
  await stage.message('the server is busy');
  await page.unroute(/\/v1\/sign-out$/);
}

async function overview(stage) {
  const { page } = stage;
  await stage.visit('/', 'Overview');
  await page.getByText('Every node has a good backup').waitFor();
  await page.getByRole('heading', { name: 'Last night' }).waitFor();
  await page.getByRole('heading', { name: 'Growth' }).waitFor();
  await stage.checkAccess('an overview without risks');
  const figures = page.locator('dl.figures');
  await figures.getByText('Good last night').waitFor();
  await page.getByRole('button', { name: 'Night before' }).click();
  await figures.getByText('Good in the night to').waitFor();
  check(!(await figures.innerText()).includes('last night'), 'the figures name the night that is shown');
}

async function list(stage) {
  const { page } = stage;
  await stage.visit('/nodes', 'Nodes');
  const rows = page.getByRole('table').locator('tbody tr');
  check((await rows.count()) === 3, 'three nodes are listed');
  await stage.inspect('nodes');
  await page.getByLabel('Search').fill('second');
  await page.waitForURL(/search=second/);
  await rows.nth(1).waitFor({ state: 'detached' });
  await page.getByLabel('Choose web-2').check();
  const actions = page.getByRole('group', { name: 'Actions for the chosen nodes' });
  await actions.getByLabel('Label').fill('web');
  await actions.getByRole('button', { name: 'Add' }).click();
  const wasRefused = await comesTooSoon(stage);
  const said = await stage.agree('Add the label');
  check(said.includes('web-2'), `the question names the node: ${said}`);
  await stage.message('The labels of 1 node are changed.');
  check(wasRefused(), 'the first change was refused');
  await page.unroute(/\/v1\/nodes\/web-2$/);
  await page.goto('/nodes?label=web');
  await page.getByRole('link', { name: 'web-2' }).waitFor();
  check((await rows.count()) === 1, 'one node has the label');
  const csv = (await stage.download(() => page.getByRole('button', { name: 'Export CSV' }).click())).toString();
  check(csv.startsWith('Node,State,') && csv.includes('\r\nweb-2,'), csv);
  await stage.visit('/nodes', 'Nodes');
  await page.getByRole('columnheader', { name: 'Node' }).getByRole('button').click();
  await page.getByRole('columnheader', { name: 'Node' }).getByRole('button').click();
  await page.locator('th[aria-sort=descending]').waitFor();
  await rows.first().filter({ hasText: 'web-3' }).waitFor();
}

/** The next change comes too soon after others for the server, and is sent again. Returns whether that has happened. */
async function comesTooSoon(stage) {
  const { page } = stage;
  const problem = { type: '/problems/too-many-requests', title: 'Too many', status: 429, detail: 'too soon', code: 'too-many-requests' };
  const refusal = { status: 429, headers: { 'Retry-After': '1' }, contentType: 'application/problem+json', body: JSON.stringify(problem) };
  stage.expected.add(429);
  let isOver = false;
  await page.route(/\/v1\/nodes\/web-2$/, (route) => {
    if (isOver || route.request().method() !== 'PATCH') return route.fallback();
    isOver = true;
    return route.fulfill(refusal);
  });
  return () => isOver;
}

async function register(stage, facts) {
  const { page } = stage;
  await page.getByRole('button', { name: 'Register a node' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name', { exact: true }).fill('new-1');
  await dialog.getByLabel('Host name').fill('new-1.example.org');
  await stage.checkAccess('the form of a new node');
  await dialog.getByRole('button', { name: 'Register' }).click();
  const command = await dialog.locator('[data-secret=Command]').innerText();
  const [program, ...words] = command.split(' ');
  check(program === 'holdfast', `the command is one of the program: ${command}`);
  execFileSync(facts.program, [...words, '--home', facts.home]);
  await dialog.getByRole('button', { name: 'Done' }).click();
  await page.getByRole('link', { name: 'new-1' }).waitFor();
}
