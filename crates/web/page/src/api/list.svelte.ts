/**
 * A list that the server pages, and sorts where it can. Otherwise the page reads it whole to sort it,
 * up to a bound: an order of a part of a list would be wrong.
 *
 * The address has the order and the number of the page, so that they survive a reload, and the
 * browser goes back to them. The page is counted from the beginning of the list as it is now.
 */
import { router } from '../shell/router.svelte';
import { all, type Page } from './client';
import { asProblem } from './loader.svelte';
import type { Problem } from './client';
import type { Cell } from '../text/csv';
import { count } from '../text/format';

/** Maximum number of rows that are read to sort them here, or to come to a page by its number. */
const WHOLE_MAX = 20_000;
/** Maximum number of rows that are read to write them into a file. */
const WRITTEN_MAX = 200_000;
const SERVER_PAGE_MAX = 1000;
const PAGE_NUMBER_MAX = 1_000_000;

export interface Column<T> {
  id: string;
  title: string;
  /** The value by which rows are sorted, and which CSV has. */
  value: (row: T) => Cell;
  isNumber?: boolean;
  /** True for a column of buttons: rows are not sorted by it, and CSV does not have it. */
  isAction?: boolean;
  /** True for a column that a narrow screen leaves out. */
  isWide?: boolean;
}

export interface Order<T> {
  column: Column<T>;
  isDescending: boolean;
}

/** Reads a page. The order is given only for columns by which the server sorts. */
export type Read<T> = (cursor: string | undefined, limit: number, order?: Order<T>) => Promise<Page<T>>;

interface Options {
  /** Name of the list in the address, for a screen with several lists. */
  name?: string;
  /** Number of rows of a page: a divisor of 1000. */
  size?: number;
  /** Columns by which the server sorts. */
  sorts?: readonly string[];
}

/** What was learnt about the list since it became another one. */
interface Known<T> {
  /** Order in which the server pages it, as the address has it. */
  order: string;
  /** Cursors of pages, by their index; the first page has none. */
  cursors: (string | undefined)[];
  /** All rows, if they were read to sort them. */
  whole?: T[];
}

/** A page that was found. */
interface Found<T> {
  rows: T[];
  page: number;
  hasNext: boolean;
}

export class List<T> {
  rows = $state.raw<T[]>([]);
  problem = $state<Problem | undefined>();
  isLoading = $state(false);
  isLoaded = $state(false);
  /** Index of the page that is shown. */
  page = $state(0);
  hasNext = $state(false);
  readonly size: number;
  readonly #sorts: readonly string[];
  /** Parameters of the address. */
  readonly #names: { sort: string; page: string };
  #known: Known<T> = { order: '', cursors: [undefined] };
  #number = 0;
  #isWanted = false;
  /** The look at the list that begins after the changes of this moment. */
  #coming: Promise<void> | undefined;

  constructor(
    private readonly read: Read<T>,
    readonly columns: () => Column<T>[],
    { name, size = 50, sorts = [] }: Options = {},
  ) {
    const prefix = name ? `${name}-` : '';
    this.#names = { sort: `${prefix}sort`, page: `${prefix}page` };
    [this.size, this.#sorts] = [size, sorts];
    const place = $derived(`${router.get(this.#names.sort)} ${router.get(this.#names.page)}`);
    $effect(() => {
      void place;
      if (this.#isWanted) void this.#look();
    });
  }

  /** Index of the first row in the list. */
  get first(): number {
    return this.page * this.size;
  }

  /** The order that the address names, if there is such a column. */
  get order(): Order<T> | undefined {
    const text = router.get(this.#names.sort);
    const isDescending = text.startsWith('-');
    const id = isDescending ? text.slice(1) : text;
    const column = this.columns().find((one) => one.id === id && !one.isAction);
    return column && { column, isDescending };
  }

  /** Reads the page that is shown again every `seconds` while somebody looks. Returns the end of that. */
  every(seconds: number): () => void {
    const timer = setInterval(() => {
      if (!document.hidden) void this.load(false);
    }, seconds * 1000);
    return () => clearInterval(timer);
  }

  /** Reads the page that the address names. A fresh list is another one: nothing is known about it. */
  load(isFresh = true): Promise<void> {
    const { order, cursors } = this.#known;
    this.#known = { order, cursors: isFresh ? [undefined] : cursors };
    return this.#look();
  }

  turn(step: 1 | -1): void {
    if (this.isLoading) return;
    const page = this.page + step;
    router.set({ [this.#names.page]: page > 0 ? String(page + 1) : undefined }, true);
  }

  sort(order: Order<T> | undefined): void {
    const text = order && `${order.isDescending ? '-' : ''}${order.column.id}`;
    router.set({ [this.#names.sort]: text, [this.#names.page]: undefined });
  }

  /** Every row of the list, in its order. */
  async whole(): Promise<T[]> {
    const order = this.order;
    if (!order || this.#isOfServer(order)) return this.#everything(WRITTEN_MAX, order);
    return sorted(this.#known.whole ?? (await this.#everything(WHOLE_MAX)), order);
  }

  /** True if the server keeps the order. */
  #isOfServer(order: Order<T>): boolean {
    return this.#sorts.includes(order.column.id);
  }

  /**
   * Looks at the list after the changes of this moment, once for all of them. What it reads on the
   * way is none of the reasons for which the caller's effect runs again.
   */
  #look(): Promise<void> {
    this.#isWanted = true;
    this.#coming ??= Promise.resolve().then(() => {
      this.#coming = undefined;
      return this.#show();
    });
    return this.#coming;
  }

  async #show(): Promise<void> {
    const number = ++this.#number;
    const order = this.order;
    const wanted = router.number(this.#names.page, 1, PAGE_NUMBER_MAX) - 1;
    this.isLoading = true;
    try {
      const isSortedHere = order && !this.#isOfServer(order);
      const found = await (isSortedHere ? this.#sortedPage(wanted, order) : this.#serverPage(wanted, order));
      if (number !== this.#number) return;
      [this.rows, this.hasNext, this.page, this.problem] = [found.rows, found.hasNext, found.page, undefined];
      this.isLoaded = true;
    } catch (error) {
      if (number === this.#number) this.problem = asProblem(error);
    } finally {
      if (number === this.#number) this.isLoading = false;
    }
  }

  /** Returns the page, or the last one before it if the list is shorter. */
  async #serverPage(wanted: number, order: Order<T> | undefined): Promise<Found<T>> {
    const { cursors } = this.#knownIn(order);
    let page = Math.min(wanted, cursors.length - 1);
    while (page > 0 && !cursors[page]) page -= 1;
    const end = Math.min(wanted, page + WHOLE_MAX / this.size);
    // Only the number of the page is known: the rows before it lead to its cursor.
    while (page < end) {
      const step = Math.min(end - page, SERVER_PAGE_MAX / this.size);
      const { items, next } = await this.read(cursors[page], step * this.size, order);
      if (!next) return this.#lastPage(items, page);
      page += step;
      cursors[page] = next;
    }
    const { items, next } = await this.read(cursors[page], this.size, order);
    cursors[page + 1] = next ?? undefined;
    return { rows: items, page, hasNext: !!next };
  }

  async #sortedPage(wanted: number, order: Order<T>): Promise<Found<T>> {
    const known = this.#known;
    known.whole ??= await this.#everything(WHOLE_MAX);
    const rows = sorted(known.whole, order);
    const end = (wanted + 1) * this.size;
    if (end >= rows.length) return this.#lastPage(rows, 0);
    return { rows: rows.slice(end - this.size, end), page: wanted, hasNext: true };
  }

  /** Returns the last page of the rows of a list from a page on. */
  #lastPage(rows: T[], from: number): Found<T> {
    const last = Math.max(0, Math.ceil(rows.length / this.size) - 1);
    return { rows: rows.slice(last * this.size), page: from + last, hasNext: false };
  }

  /** What is known about the list, if the server pages it in this order. */
  #knownIn(order: Order<T> | undefined): Known<T> {
    const text = order ? router.get(this.#names.sort) : '';
    if (this.#known.order !== text) this.#known = { ...this.#known, order: text, cursors: [undefined] };
    return this.#known;
  }

  async #everything(max: number, order?: Order<T>): Promise<T[]> {
    let hasMore = false;
    const rows = await all(async (cursor) => {
      const page = await this.read(cursor, SERVER_PAGE_MAX, order);
      hasMore = !!page.next;
      return page;
    }, max);
    if (hasMore) throw new Error(`The list has more than ${count(max)} rows, and so it is neither sorted by this column nor exported. Look for less.`);
    return rows;
  }
}

function sorted<T>(rows: T[], { column, isDescending }: Order<T>): T[] {
  const sign = isDescending ? -1 : 1;
  return [...rows].sort((one, other) => sign * compare(column.value(one), column.value(other)));
}

/** Orders numbers by size and texts as people do. What is absent comes first. */
function compare(one: Cell, other: Cell): number {
  if (one === other) return 0;
  if (one === null || one === undefined) return -1;
  if (other === null || other === undefined) return 1;
  if (typeof one === 'string' && typeof other === 'string') return one.localeCompare(other, 'en', { numeric: true });
  return Number(one) - Number(other);
}

/** A list that is already here. */
export function listOf<T>(items: () => T[], columns: () => Column<T>[], options?: Options): List<T> {
  const read: Read<T> = async (cursor, limit) => {
    const from = Number(cursor ?? 0);
    const end = from + limit;
    return { items: items().slice(from, end), next: items().length > end ? String(end) : undefined };
  };
  return new List(read, columns, options);
}
