/** An event that is followed live, by server-sent events, until it has ended. */
import { get, url, type Documents } from './client';
import { asProblem } from './loader.svelte';
import type { Problem } from './client';

type Event = Documents['EventDocument'];

/** Progress of work, as the node or the server tells it. */
export interface Progress {
  line?: string;
  objects?: number;
  bytes?: number;
  bytes_transferred?: number;
  objects_per_sec?: number;
  bytes_per_sec?: number;
  failed?: number;
  percent?: number | null;
  seconds_left?: number | null;
  examined?: number;
}

/**
 * Progress for a bar. Work of the server tells which part of a whole is done: its rate and the time
 * that is left follow from the time since it was started.
 */
export function asProgress(told: unknown, started: string | null | undefined): Progress | undefined {
  if (!told || typeof told !== 'object') return undefined;
  const progress = told as Progress & { done?: number; total?: number; bytes_done?: number };
  const bytes = progress.bytes_done ?? progress.bytes;
  const seconds = started ? (Date.now() - new Date(started).getTime()) / 1000 : 0;
  if (!progress.total) return { ...progress, bytes };
  const share = (progress.done ?? 0) / progress.total;
  const hasMean = seconds >= 1;
  return {
    ...progress,
    bytes,
    percent: Math.floor(100 * share),
    bytes_per_sec: hasMean && bytes !== undefined ? bytes / seconds : undefined,
    seconds_left: hasMean && share > 0 ? (seconds * (1 - share)) / share : undefined,
  };
}

export class Watch {
  event = $state.raw<Event | undefined>();
  problem = $state<Problem | undefined>();
  /** True while the server sends what changes. */
  isLive = $state(false);
  #source: EventSource | undefined;

  constructor(readonly number: number) {}

  get progress(): Progress | undefined {
    return asProgress(this.event?.progress, this.event?.started);
  }

  /** Begins to follow. Returns the end of that. */
  begin(): () => void {
    void this.#read().then(() => {
      if (this.event && !isOver(this.event)) this.#follow();
    });
    return () => this.#end();
  }

  async #read(): Promise<void> {
    try {
      this.event = await get('/v1/events/{event}', { path: { event: this.number } });
    } catch (error) {
      this.problem = asProblem(error);
    }
  }

  #follow(): void {
    const source = new EventSource(url('/v1/events/{event}/stream', { path: { event: this.number } }));
    this.#source = source;
    source.addEventListener('open', () => (this.isLive = true));
    source.addEventListener('error', () => (this.isLive = false));
    source.addEventListener('state', (message) => {
      this.event = JSON.parse((message as MessageEvent<string>).data) as Event;
      if (isOver(this.event)) {
        this.#end();
        // The document of an event that has ended has its report.
        void this.#read();
      }
    });
  }

  #end(): void {
    this.#source?.close();
    this.isLive = false;
  }
}

const OPEN = ['pending', 'started', 'in-progress', 'restarted'];

export function isOver(event: Event): boolean {
  return !OPEN.includes(event.state);
}
