/** Requests for approval that wait for a decision of this person. */
import { get } from '../api/client';
import { Loader } from '../api/loader.svelte';
import { session } from '../api/session.svelte';

/** Number of the newest requests that are looked at. */
const LOOKED_AT = 100;
const SECONDS_BETWEEN_LOOKS = 60;

class Waiting {
  #requests = new Loader(() => get('/v1/approvals', { query: { limit: LOOKED_AT } }));

  /** Number of the requests. */
  get count(): number {
    return this.#requests.value?.items.filter((one) => one.state === 'waiting' && !one.is_own).length ?? 0;
  }

  /** Looks from time to time, if the person decides about requests. Returns the end of that. */
  begin(): () => void {
    this.#requests.value = undefined;
    return session.has('system', 'tenant') ? this.#requests.every(SECONDS_BETWEEN_LOOKS) : () => {};
  }

  /** Looks again, after a decision. */
  async look(): Promise<void> {
    await this.#requests.load();
  }
}

export const waiting = new Waiting();
