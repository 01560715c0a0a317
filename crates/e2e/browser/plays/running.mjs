// What goes on: work is followed live and cancelled, sessions are ended, a task of the server starts.
// An auditor sees all of it, and ends nothing.
import { check } from '../stage.mjs';

export default async function play(stage, facts) {
  await auditor(stage, facts);
  await stage.enter();
  await stage.signIn(facts.login, facts.password);
  const { page } = stage;
  await stage.visit('/running', 'Running');
  await page.getByRole('link', { name: `${facts.schedule} at web-1` }).waitFor();
  await page.getByText('1 connection from 127.0.0.1').first().waitFor();
  await stage.inspect('running');
  await page.getByRole('button', { name: `Cancel ${facts.schedule} at web-1` }).click();
  check((await stage.agree('Cancel the work')).includes('not tried again'), 'the question says what becomes of the work');
  await page.getByRole('link', { name: `${facts.schedule} at web-1` }).waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'End the sessions of web-1' }).click();
  await stage.agree('End the sessions');
  await stage.message('The sessions of web-1 are ended.');
  await page.getByRole('button', { name: 'Start a task' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Task').selectOption('audit');
  await dialog.getByText('Nothing is changed.').waitFor();
  await stage.checkAccess('the form of a task');
  await dialog.getByRole('button', { name: 'Start now' }).click();
  await page.waitForURL(/\/events\/\d+/);
  await page.getByText('Completed', { exact: true }).waitFor();
  await many(stage);
  await begun(stage);
  await ofServer(stage);
}

/** Connected nodes of several pages are counted, and those that work are shown first. */
async function many(stage) {
  const { page } = stage;
  const sessions = /\/v1\/sessions\?/;
  const idle = (number) => ({ node: `idle-${number}`, addresses: ['192.0.2.1'], connections: 1, activities: [] });
  const activity = { kind: 'backup', filespace: '/', since: new Date().toISOString(), bytes: 1, objects: 1, bytes_per_sec: 1 };
  const first = { items: Array.from({ length: 1000 }, (_, number) => idle(number)), next: 'second' };
  const second = { items: [{ ...idle(1000), node: 'working-1', activities: [activity] }] };
  await page.route(sessions, (route) => route.fulfill({ json: route.request().url().includes('cursor=') ? second : first }));
  await stage.visit('/running', 'Running');
  await page.getByText('1,001 nodes connected').waitFor();
  await page.getByText('and 901 more nodes').waitFor();
  check((await page.locator('.list li').first().innerText()).includes('working-1'), 'nodes that work are shown first');
  await page.unroute(sessions);
}

/** Tasks that the server begins while somebody looks appear by themselves, and can be cancelled. */
async function begun(stage) {
  const { page } = stage;
  const tasks = /\/v1\/tasks\?/;
  let items = [];
  await page.route(tasks, (route) => route.fulfill({ json: { items } }));
  await stage.visit('/running', 'Running');
  await page.getByText('The server has begun no task yet.').waitFor();
  const started = new Date(Date.now() - 600_000).toISOString();
  const progress = { done: 3, total: 4, bytes_done: 600_000_000, bytes: 800_000_000, failures: 0 };
  items = [{ number: 1, task: 'drain', due: started, started, is_cancelled: false, progress }];
  const table = page.getByRole('table', { name: 'Tasks of the server' });
  await table.getByText(/75 % \u00b7 600 MB \u00b7 [\d.]+ [kM]B\/s \u00b7 3 min( \d+ s)? left/).waitFor();
  const asked = [];
  await page.route(/\/v1\/tasks\/1$/, (route) => {
    asked.push(route.request().method());
    return route.fulfill({ status: 204 });
  });
  await table.getByRole('button', { name: 'Cancel Drain' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel the task' }).click();
  await page.getByText('The wish to cancel is noted.').waitFor();
  check(asked.join() === 'DELETE', 'the task is cancelled by a request');
  await page.unroute(/\/v1\/tasks\/1$/);
  await page.unroute(tasks);
}

/** Work of the server that waits can be cancelled, which the question explains, and cannot pause. */
async function ofServer(stage) {
  const { page } = stage;
  const [now, later] = [new Date().toISOString(), new Date(Date.now() + 3_600_000).toISOString()];
  const event = {
    number: 99, schedule: 'tidy', planned: now, opens: now, closes: later, state: 'pending',
    attempt: 0, code: 0, reason: '', work: 'expire',
  };
  const events = /\/v1\/events\/99(\/\w+)?$/;
  await page.route(events, (route) => {
    const path = route.request().url();
    if (path.endsWith('/stream')) return route.fulfill({ contentType: 'text/event-stream', body: 'retry: 600000\n\n' });
    return route.fulfill({ json: path.endsWith('/log') ? { log: '' } : event });
  });
  await stage.visit('/events/99', 'tidy at the server');
  check(!(await page.getByRole('button', { name: 'Pause' }).count()), 'work of the server cannot pause');
  await page.getByRole('button', { name: 'Cancel the work' }).click();
  const said = await page.getByRole('dialog').innerText();
  check(said.includes('does not begin'), `the question says that the work does not begin: ${said}`);
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel', exact: true }).click();
  // Work of a node that pauses goes on after a question.
  Object.assign(event, { node: 'web-1', state: 'in-progress', wish: 'pause' });
  await stage.visit('/events/99', 'tidy at web-1');
  await page.getByRole('button', { name: 'Resume' }).click();
  check((await stage.agree('Resume')).includes('goes on'), 'the question says that the work goes on');
  await stage.message('The wish to resume is noted.');
  await page.unroute(events);
}

async function auditor(stage, facts) {
  await stage.signIn(facts.auditor, facts.password);
  const { page } = stage;
  await stage.visit('/running', 'Running');
  await page.getByRole('link', { name: `${facts.schedule} at web-1` }).waitFor();
  await page.getByRole('link', { name: 'web-1', exact: true }).first().waitFor();
  check((await page.getByRole('button', { name: /^(Start a task|End .*|Cancel .*)$/ }).count()) === 0, 'an auditor begins and ends no work');
}
