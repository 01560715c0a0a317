/** Questions before a change, and short messages after it. */
import { Problem } from '../api/client';
import { asProblem } from '../api/loader.svelte';

export interface Question {
  title: string;
  /** Sentences that say what the change will do. */
  effects: string[];
  /** Label of the button that does it. */
  action: string;
  isDangerous?: boolean;
  /** Word that has to be typed before the change, for changes that cannot be undone. */
  word?: string;
}

interface Open extends Question {
  answer: (isYes: boolean) => void;
}

class Dialogs {
  question = $state<Open | undefined>();
  message = $state<{ text: string; isBad: boolean } | undefined>();
  #timer = 0;

  /** Asks whether a change is to be made. */
  ask(question: Question): Promise<boolean> {
    return new Promise((resolve) => {
      const answer = (isYes: boolean) => {
        this.question = undefined;
        resolve(isYes);
      };
      this.question = { ...question, answer };
    });
  }

  say(text: string): void {
    this.#show(text, false);
  }

  /** Says that something went wrong; the message stays until it is closed. */
  complain(error: unknown): void {
    if (hasChanged(error)) this.#show('Somebody has changed this meanwhile, and nothing was done. It is shown as it is now: look again, then decide.', true);
    else this.#show(error instanceof Error ? error.message : String(error), !isWaiting(error));
  }

  close(): void {
    this.message = undefined;
  }

  #show(text: string, isBad: boolean): void {
    clearTimeout(this.#timer);
    this.message = { text, isBad };
    if (!isBad) this.#timer = setTimeout(() => this.close(), 6000) as unknown as number;
  }
}

export const dialogs = new Dialogs();

/** True if the server has kept a request for another person, which is as it should be. */
export function isWaiting(error: unknown): boolean {
  return error instanceof Problem && error.code === 'approval-needed';
}

/** True if a change was refused because the object is not as the person has seen it. */
export function hasChanged(error: unknown): boolean {
  return error instanceof Problem && error.code === 'changed';
}

/**
 * The sending of a form. A form that is closed meanwhile cannot show what became of it: a message does
 * then. So it is with a request that waits for another person, at which the form closes.
 */
export class Sending {
  isBusy = $state(false);
  problem = $state('');
  #isOpen = true;

  constructor() {
    $effect(() => () => (this.#isOpen = false));
  }

  /** Sends, and says that it is done. Calls `done` at the end of a form that is open still. */
  async send<T>(work: () => Promise<T>, said: string, done: (answer: T | undefined) => void): Promise<void> {
    if (this.isBusy) return;
    [this.problem, this.isBusy] = ['', true];
    try {
      const answer = await work();
      dialogs.say(said);
      if (this.#isOpen) done(answer);
    } catch (error) {
      if (!this.#isOpen || isWaiting(error)) dialogs.complain(error);
      else this.problem = asProblem(error).message;
      if (this.#isOpen && isWaiting(error)) done(undefined);
    } finally {
      this.isBusy = false;
    }
  }
}

/** Asks, carries the change out, and says what became of it. Returns true if it was done. */
export async function change(question: Question, work: () => Promise<unknown>, done: string): Promise<boolean> {
  if (!(await dialogs.ask(question))) return false;
  return attempt(work, done);
}

/** Carries a change out that was already explained, and says what became of it. */
export async function attempt(work: () => Promise<unknown>, done: string): Promise<boolean> {
  try {
    await work();
    dialogs.say(done);
    return true;
  } catch (error) {
    dialogs.complain(error);
    return false;
  }
}
