// A browser with one person before it: what it shows is inspected, and what it complains about is
// an error of the test.
import { createHmac } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { reduced } from './picture.mjs';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
const WIDE = { width: 1280, height: 820 };
const PHONE = { width: 390, height: 844 };
/** Limit of each wait, which only a fault reaches: a browser beside other tests is slow. */
const WAIT_MILLIS_MAX = 120_000;
/** Steps of the codes of a second factor. */
const STEP_MILLIS = 30_000;
const ARGUMENTS = [
  '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-sync',
  '--disable-background-networking', '--disable-component-update',
];

export class Stage {
  static async open(facts) {
    const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ARGUMENTS });
    const stage = new Stage();
    stage.browser = browser;
    stage.facts = facts;
    await stage.enter();
    return stage;
  }

  complaints = [];
  /** Answers that a play expects to be refused, by their status. */
  expected = new Set();

  /** Begins as a person whom the server does not know yet. */
  async enter() {
    await this.context?.close();
    this.context = await this.browser.newContext({
      ignoreHTTPSErrors: true, viewport: WIDE, baseURL: this.facts.url, colorScheme: 'light',
      reducedMotion: 'reduce', acceptDownloads: true, timezoneId: 'UTC', locale: 'en-GB',
    });
    this.page = await this.context.newPage();
    this.page.setDefaultTimeout(WAIT_MILLIS_MAX);
    this.page.on('console', (message) => this.#hear(message));
    this.page.on('pageerror', (error) => this.complaints.push(`${error.stack ?? error}`));
  }

  #hear(message) {
    if (!['error', 'warning'].includes(message.type())) return;
    const text = message.text();
    const status = /status of (\d+)/.exec(text)?.[1];
    if (status && this.expected.has(Number(status))) return;
    this.complaints.push(`${text} (${message.location().url}, on ${this.page.url()})`);
  }

  async signIn(login, password, code) {
    const { page } = this;
    // The page asks whether it is signed in, which it is not.
    this.expected.add(401);
    if (!page.url().startsWith(this.facts.url)) await page.goto('/');
    await page.getByLabel('Login').fill(login);
    await page.getByLabel('Password').fill(password);
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    if (code) {
      await page.getByLabel('Code').fill(code);
      await page.getByRole('button', { name: 'Go on' }).click();
    }
    await page.getByRole('navigation', { name: 'Screens' }).waitFor();
    await this.quiet();
  }

  /** Waits until the page asks the server nothing. A stream of events may stay open. */
  async quiet() {
    await this.page.waitForLoadState('networkidle', { timeout: 5_000 }).catch(() => {});
  }

  /** Goes to an address of the page. */
  async visit(path, title) {
    await this.page.goto(path);
    await this.page.getByRole('heading', { level: 1, name: title }).waitFor();
    await this.quiet();
  }

  /** Checks that everybody can use the screen, and takes its pictures: from `top` on, if it is given. */
  async inspect(name, top) {
    const { page } = this;
    // A message from before would hide a part of the screen.
    const close = page.getByRole('button', { name: 'Close the message' });
    if (await close.isVisible()) await close.click();
    for (const scheme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' });
      await this.checkAccess(`${name}, ${scheme}`);
      await this.picture(`${name}-${scheme}`, top);
    }
    await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' });
    await this.onPhone(async () => {
      await this.checkAccess(`${name}, phone`);
      const [whole, seen] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
      if (whole > seen) throw new Error(`${name}: a phone has to scroll aside, ${whole} of ${seen} pixels`);
      await this.picture(`${name}-phone`, top);
    });
    await page.evaluate(() => scrollTo(0, 0));
  }

  /** Calls `look` while the screen is that of a phone. */
  async onPhone(look) {
    await this.page.setViewportSize(PHONE);
    await look();
    await this.page.setViewportSize(WIDE);
  }

  /** Checks that a phone shows an element without scrolling aside. */
  async seesOnPhone(element) {
    await this.onPhone(async () => {
      const box = await element.boundingBox();
      check(box && box.x + box.width <= PHONE.width, `it is in sight on a phone: ${element} ${JSON.stringify(box)}`);
    });
  }

  /** Confirms a second factor with this secret. A code counts once, and that of the step before leaves the present one for the sign-in. */
  async takeSecondFactor(secret) {
    const { page } = this;
    await earlyInStep();
    await page.getByLabel('Code').fill(code(secret, -1));
    await page.getByRole('textbox', { name: 'Password', exact: true }).fill(this.facts.password);
    await page.getByRole('button', { name: 'Confirm' }).click();
  }

  /** Answers the question for the code: first with a wrong one, then with the present one. */
  async giveCode(secret) {
    const { page } = this;
    await page.getByLabel('Code').fill('000000');
    await page.getByRole('button', { name: 'Go on' }).click();
    await page.getByRole('alert').filter({ hasText: 'the code is wrong' }).waitFor();
    await page.getByLabel('Code').fill(code(secret));
    await page.getByRole('button', { name: 'Go on' }).click();
    await page.getByText('Your account has a second factor.').waitFor();
  }

  async checkAccess(name) {
    const { page } = this;
    await page.evaluate(AXE);
    const found = await page.evaluate((values) => window.axe.run(document, { runOnly: { type: 'tag', values } }), RULES);
    const faults = found.violations.flatMap((violation) =>
      violation.nodes.map((node) => `${violation.id}: ${violation.help}: ${node.html} ${node.failureSummary}`));
    if (faults.length) throw new Error(`${name}: ${faults.length} faults of access\n${faults.slice(0, 8).join('\n')}`);
  }

  async picture(name, top) {
    const { pictures } = this.facts;
    if (!pictures) return;
    await this.page.evaluate(() => scrollTo(0, 0));
    // The bar of a narrow screen covers the first lines.
    await top?.evaluate((element) => scrollTo(0, element.getBoundingClientRect().top - 56));
    mkdirSync(pictures, { recursive: true });
    writeFileSync(join(pictures, `${name}.png`), reduced(await this.page.screenshot()));
  }

  /** Saves what a click downloads, and returns its bytes. */
  async download(click) {
    const [download] = await Promise.all([this.page.waitForEvent('download'), click()]);
    return readFileSync(await download.path());
  }

  /** Agrees to the question that a change asks. Returns what it says that it will do. */
  async agree(label) {
    const dialog = this.page.getByRole('dialog');
    const text = await dialog.innerText();
    await dialog.getByRole('button', { name: label, exact: true }).click();
    return text;
  }

  /** Waits for a message at the foot of the page. */
  async message(text) {
    await this.page.getByRole('status').filter({ hasText: text }).first().waitFor();
  }

  async close() {
    await this.browser.close();
    if (this.complaints.length) throw new Error(`the browser complains:\n${this.complaints.join('\n')}`);
  }

  async fail(error) {
    console.error(error.stack ?? error);
    console.error(this.complaints.join('\n'));
    console.error(`on ${this.page.url()}`);
    await this.page.locator('body').innerText({ timeout: 2_000 }).then((text) => console.error(text), () => {});
    await this.browser.close();
  }
}

/**
 * Waits until half a step of 30 seconds lies ahead. The server takes the code of the step before only
 * while the present step lasts.
 */
async function earlyInStep() {
  const gone = Date.now() % STEP_MILLIS;
  if (gone > STEP_MILLIS / 2) await new Promise((resolve) => setTimeout(resolve, STEP_MILLIS - gone));
}

/** The code of a second factor, so many steps of 30 seconds from now. */
export function code(secret, steps = 0) {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';
  const bits = [...secret].map((letter) => alphabet.indexOf(letter).toString(2).padStart(5, '0')).join('');
  const key = Buffer.from(bits.match(/.{8}/g).map((byte) => parseInt(byte, 2)));
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(Date.now() / STEP_MILLIS) + steps));
  const hash = createHmac('sha1', key).update(counter).digest();
  const offset = hash[hash.length - 1] & 15;
  return String((hash.readUInt32BE(offset) & 0x7fffffff) % 1_000_000).padStart(6, '0');
}

export function check(isTrue, text) {
  if (!isTrue) throw new Error(text);
}
