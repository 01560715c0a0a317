/**
 * The client of the REST API. Its types come from the OpenAPI document, so that a request with a
 * wrong path, parameter or body does not pass the check of types.
 */
import type { components, paths } from './document';

export type Documents = components['schemas'];
type Method = 'get' | 'post' | 'put' | 'patch' | 'delete';
type Operation<P extends keyof paths, M extends Method> = Exclude<paths[P][M], undefined>;
type PathOf<M extends Method> = {
  [P in keyof paths]: Operation<P, M> extends never ? never : P;
}[keyof paths];

type PathPart<O> = O extends { parameters: { path: infer V } } ? { path: V } : { path?: undefined };
type QueryPart<O> = O extends { parameters: { query?: infer V } } ? { query?: V } : { query?: undefined };
type BodyPart<O> = O extends { requestBody: { content: infer C } }
  ? { body: C[keyof C] }
  : { body?: undefined };
/** The document that the person has seen: the change is refused if the object is no longer so. */
type SeenPart = { seen?: object };
type Parts<O> = PathPart<O> & QueryPart<O> & BodyPart<O> & SeenPart;
type Json<R> = R extends { content: { 'application/json': infer T } } ? T : never;
type Answer<O> = O extends { responses: infer R } ? Json<R[keyof R & (200 | 201)]> : never;
/** No argument is needed where an operation has no parts that must be given. */
type Arguments<O> = object extends Parts<O> ? [parts?: Parts<O>] : [parts: Parts<O>];

/** Longest pause after which a request is sent again that came too soon after others, in seconds. */
const PAUSE_SECS_MAX = 5;
/** Maximum number of times that a request is sent. */
const ATTEMPTS_MAX = 8;

/** A refused or failed request, in the form of RFC 9457. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    /** Seconds after which the server takes the request, if it came too soon after others. */
    readonly pauseSecs?: number,
  ) {
    super(detail);
  }
}

/** The tags of documents that were read, by which a change says what the person has seen. */
const tags = new WeakMap<object, string>();

/** The guard of the sign-in, which each change has to show. */
let guard = '';
/** Called when the server no longer knows who asks. */
let whenSignedOut = (): void => {};

export function setGuard(value: string): void {
  guard = value;
}

export function onSignedOut(call: () => void): void {
  whenSignedOut = call;
}

/** Returns the address of an operation. */
export function url(
  path: string,
  parts: { path?: Record<string, unknown>; query?: Record<string, unknown> } = {},
): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(String(parts.path?.[name] ?? '')),
  );
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parts.query ?? {})) {
    if (value !== undefined && value !== null && value !== '') query.set(name, String(value));
  }
  const text = query.toString();
  return text ? `${filled}?${text}` : filled;
}

async function problemOf(response: Response): Promise<Problem> {
  let body: Partial<Documents['Document']> = {};
  try {
    body = await response.json();
  } catch {
    // An answer from something between here and the server is no JSON.
  }
  const detail = body.detail ?? `the server answered with status ${response.status}`;
  const pauseSecs = response.status === 429 ? Number(response.headers.get('retry-after')) || undefined : undefined;
  return new Problem(response.status, body.code ?? 'unavailable', detail, pauseSecs);
}

interface AnyParts {
  path?: unknown;
  query?: unknown;
  body?: unknown;
  seen?: object;
}

/** True for a request that the server refused only because too many came before it. Guesses of passwords and codes are to be slow. */
function comesTooSoon(error: unknown, path: string): error is Problem & { pauseSecs: number } {
  const isGuess = path.startsWith('/v1/sign-in') || path.startsWith('/v1/account');
  return error instanceof Problem && !isGuess && error.pauseSecs !== undefined && error.pauseSecs <= PAUSE_SECS_MAX;
}

/** Sends a request, again after a pause if it comes too soon, as in a change of many objects. Fails if the answer is a problem. */
async function request(method: Method, path: string, parts: AnyParts = {}): Promise<Response> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await requestOnce(method, path, parts);
    } catch (error) {
      if (!comesTooSoon(error, path) || attempt === ATTEMPTS_MAX) throw error;
      await new Promise((resolve) => setTimeout(resolve, error.pauseSecs * 1000));
    }
  }
}

async function requestOnce(method: Method, path: string, parts: AnyParts): Promise<Response> {
  const headers: Record<string, string> = {};
  const init: RequestInit = { method: method.toUpperCase(), headers, credentials: 'same-origin' };
  if (method !== 'get') headers['X-Holdfast-Guard'] = guard;
  if (parts.body !== undefined) {
    headers['Content-Type'] = 'application/json';
    init.body = JSON.stringify(parts.body);
  }
  const tag = parts.seen && tags.get(parts.seen);
  if (tag) headers['If-Match'] = tag;
  const address = url(path, parts as { path?: Record<string, unknown> });
  let response: Response;
  try {
    response = await fetch(address, init);
  } catch {
    throw new Problem(0, 'unavailable', 'the server cannot be reached');
  }
  // A request that waits for another person has an answer of its own.
  if (!response.ok || response.headers.get('content-type') === 'application/problem+json') {
    const problem = await problemOf(response);
    if (problem.status === 401 && problem.code === 'unauthenticated' && !path.includes('sign-in')) {
      whenSignedOut();
    }
    throw problem;
  }
  return response;
}

async function send(method: Method, path: string, parts?: AnyParts): Promise<unknown> {
  const response = await request(method, path, parts);
  if (response.status === 204) return undefined;
  const document: unknown = await response.json();
  const tag = response.headers.get('etag');
  if (tag && typeof document === 'object' && document) tags.set(document, tag);
  return document;
}

export function get<P extends PathOf<'get'>>(path: P, ...parts: Arguments<Operation<P, 'get'>>) {
  return send('get', path, parts[0]) as Promise<Answer<Operation<P, 'get'>>>;
}

export function post<P extends PathOf<'post'>>(path: P, ...parts: Arguments<Operation<P, 'post'>>) {
  return send('post', path, parts[0]) as Promise<Answer<Operation<P, 'post'>>>;
}

export function put<P extends PathOf<'put'>>(path: P, ...parts: Arguments<Operation<P, 'put'>>) {
  return send('put', path, parts[0]) as Promise<Answer<Operation<P, 'put'>>>;
}

export function patch<P extends PathOf<'patch'>>(path: P, ...parts: Arguments<Operation<P, 'patch'>>) {
  return send('patch', path, parts[0]) as Promise<Answer<Operation<P, 'patch'>>>;
}

export function remove<P extends PathOf<'delete'>>(path: P, ...parts: Arguments<Operation<P, 'delete'>>) {
  return send('delete', path, parts[0]) as Promise<Answer<Operation<P, 'delete'>>>;
}

/** Reads an answer that is text. */
export async function text<P extends PathOf<'get'>>(path: P, ...parts: Arguments<Operation<P, 'get'>>): Promise<string> {
  return (await request('get', path, parts[0])).text();
}

/** A file that the server has made, with the name that the server gives it. */
export interface MadeFile {
  name: string;
  content: Blob;
}

/** Sends a request whose answer is a file. */
export async function postForFile<P extends PathOf<'post'>>(path: P, ...parts: Arguments<Operation<P, 'post'>>): Promise<MadeFile> {
  const response = await request('post', path, parts[0]);
  const named = /filename\*=UTF-8''([^;]+)/.exec(response.headers.get('content-disposition') ?? '');
  return { name: decodeURIComponent(named?.[1] ?? 'download'), content: await response.blob() };
}

/** A page of a list. */
export interface Page<T> {
  items: T[];
  next?: string | null;
}

/** Reads all pages of a list, up to `max` items. */
export async function all<T>(
  page: (cursor: string | undefined) => Promise<Page<T>>,
  max = 20_000,
): Promise<T[]> {
  const items: T[] = [];
  let cursor: string | undefined;
  do {
    const read = await page(cursor);
    items.push(...read.items);
    cursor = read.next ?? undefined;
  } while (cursor && items.length < max);
  return items;
}
