/**
 * Names and paths of any bytes. A document has text, or the bytes in Base64. An address has text, or
 * `base64:` with the bytes: this form is called a parameter here. People see `\xff` for a byte that
 * is no part of a text, or belongs to a character that deceives: one that ends lines, turns the
 * direction of text around, or controls a terminal.
 */
import type { Documents } from '../api/client';

export type Name = Documents['Bytes'];
const MARK = 'base64:';
/** Characters that a terminal or a browser obeys in place of showing them, as the program's command line has them. */
const DECEIVING = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu;
const STRICT = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** The name as a parameter of an address. Two names have two parameters. */
export function parameterOf(name: Name): string {
  if (typeof name !== 'string') return MARK + name.bytes;
  // A text that begins as bytes do would be taken for bytes.
  return name.startsWith(MARK) ? MARK + base64(new TextEncoder().encode(name)) : name;
}

/** The name that a parameter stands for. */
export function nameOf(parameter: string): Name {
  return nameOfBytes(bytesOf(parameter));
}

/** The bytes that a parameter stands for. An address that somebody has cut may hold no Base64. */
export function bytesOf(parameter: string): Uint8Array {
  if (!parameter.startsWith(MARK)) return new TextEncoder().encode(parameter);
  try {
    return Uint8Array.from(atob(parameter.slice(MARK.length)), (character) => character.charCodeAt(0));
  } catch {
    return new Uint8Array();
  }
}

export function parameterOfBytes(bytes: Uint8Array): string {
  return parameterOf(nameOfBytes(bytes));
}

/** A name for people. */
export function readable(name: Name): string {
  return typeof name === 'string' ? printable(name) : readableBytes(bytesOf(parameterOf(name)));
}

/** A text from elsewhere, with `\xff` for each byte of a character that deceives. */
export function printable(text: string): string {
  return text.replace(DECEIVING, (character) => Array.from(new TextEncoder().encode(character), hex).join(''));
}

export function readableBytes(bytes: Uint8Array): string {
  const whole = textOf(bytes);
  if (whole !== undefined) return printable(whole);
  let text = '';
  for (let at = 0; at < bytes.length; ) {
    const end = at + lengthOfCharacter(bytes[at] ?? 0);
    const character = end <= bytes.length ? textOf(bytes.subarray(at, end)) : undefined;
    text += character === undefined ? hex(bytes[at] ?? 0) : printable(character);
    at = character === undefined ? at + 1 : end;
  }
  return text;
}

function hex(byte: number): string {
  return `\\x${byte.toString(16).padStart(2, '0')}`;
}

/** The number of bytes of the character that begins with this byte. */
function lengthOfCharacter(first: number): number {
  if (first < 0xc0) return 1;
  return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

function nameOfBytes(bytes: Uint8Array): Name {
  return textOf(bytes) ?? { bytes: base64(bytes) };
}

/** The text of bytes, if they are one. */
function textOf(bytes: Uint8Array): string | undefined {
  try {
    return STRICT.decode(bytes);
  } catch {
    return undefined;
  }
}

function base64(bytes: Uint8Array): string {
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''));
}
