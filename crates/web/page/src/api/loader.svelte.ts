/** A document that a screen shows: read once, again on demand, and from time to time. */
import { Problem } from './client';

export class Loader<T> {
  value = $state.raw<T | undefined>();
  problem = $state<Problem | undefined>();
  isLoading = $state(false);
  /** Number of the last request: an answer that has been overtaken is left out. */
  #number = 0;

  constructor(private readonly read: () => Promise<T>) {}

  async load(): Promise<void> {
    const number = ++this.#number;
    this.isLoading = true;
    try {
      const value = await this.read();
      if (number !== this.#number) return;
      this.value = value;
      this.problem = undefined;
    } catch (error) {
      if (number === this.#number) this.problem = asProblem(error);
    } finally {
      if (number === this.#number) this.isLoading = false;
    }
  }

  /** Loads now and every `seconds` while the page is visible. Returns the end of that. */
  every(seconds: number): () => void {
    void this.load();
    const timer = setInterval(() => {
      if (!document.hidden) void this.load();
    }, seconds * 1000);
    return () => clearInterval(timer);
  }
}

export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  return new Problem(0, 'bug', error instanceof Error ? error.message : String(error));
}
