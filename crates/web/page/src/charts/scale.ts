/** Scales of charts: from values to places, and the round values at which lines are drawn. */

export interface Scale {
  (value: number): number;
  ticks: number[];
}

/** A scale from 0 to `most` over `length` pixels, upwards, with about `count` round ticks. */
export function upwards(most: number, length: number, count = 4): Scale {
  const step = roundStep(most / count);
  const end = Math.max(step, Math.ceil(most / step) * step);
  const scale = (value: number) => length - (value / end) * length;
  const ticks = Array.from({ length: Math.round(end / step) + 1 }, (_, index) => index * step);
  return Object.assign(scale, { ticks });
}

/** The next step of the form 1, 2 or 5 with zeros. */
export function roundStep(step: number): number {
  if (!(step > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(step));
  const factor = [1, 2, 5, 10].find((one) => one * power >= step * 0.999) ?? 10;
  return factor * power;
}
