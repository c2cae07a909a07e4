/** Texts for times, numbers and names: one place, so that they read the same everywhere. */

import { printableText, resourceText } from '@leasehold/keys-core';

/** The qualified name of a resource, `boards.eu/q4-roadmap`; what could not be seen in it is escaped. */
export function fullName(resource: { readonly namespace: string; readonly name: string }): string {
  return printableText(resourceText(resource));
}

/** `…7b1d09ce`, the end of an id: those made at the same time begin with the same characters. */
export function shortId(id: string): string {
  return id.length <= SHORT_LENGTH ? id : `…${id.slice(-SHORT_LENGTH)}`;
}

const SHORT_LENGTH = 8;

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** `840 ms`, `12 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`: two units at most, never negative. */
export function duration(ms: number): string {
  const rest = Math.max(0, ms);
  if (rest < SECOND_MS) return `${String(Math.round(rest))} ms`;
  if (rest < MINUTE_MS) return `${String(Math.floor(rest / SECOND_MS))} s`;
  if (rest < HOUR_MS) return twoUnits(rest, [MINUTE_MS, 'min'], [SECOND_MS, 's']);
  if (rest < DAY_MS) return twoUnits(rest, [HOUR_MS, 'h'], [MINUTE_MS, 'min']);
  return twoUnits(rest, [DAY_MS, 'd'], [HOUR_MS, 'h']);
}

type Unit = readonly [ms: number, name: string];

function twoUnits(ms: number, [bigMs, big]: Unit, [smallMs, small]: Unit): string {
  const bigCount = Math.floor(ms / bigMs);
  const smallCount = Math.floor((ms % bigMs) / smallMs);
  const head = `${String(bigCount)} ${big}`;
  return smallCount === 0 ? head : `${head} ${String(smallCount)} ${small}`;
}

/** `3 min ago`, `just now`. */
export function ago(ms: number): string {
  return ms < SECOND_MS ? 'just now' : `${duration(ms)} ago`;
}

/** `2026-11-21 14:03:22.120 UTC`: sortable, and the same for everybody on call. */
export function absolute(iso: string): string {
  return `${iso.slice(0, 10)} ${clockMs(iso)} UTC`;
}

/** `2026-11-21 14:03:22`, for rows of any day. */
export function dayTime(iso: string): string {
  return `${iso.slice(0, 10)} ${clockTime(iso)}`;
}

/** `14:03:22` on the day of `nowIso`, and with its date on any other. */
export function timeNear(iso: string, nowIso: string): string {
  return iso.slice(0, 10) === nowIso.slice(0, 10) ? clockTime(iso) : dayTime(iso);
}

/** `14:03:22`, for axes and rows of one day. */
export function clockTime(iso: string): string {
  return iso.slice(11, 19);
}

/** `14:03:22.120`, for what follows within moments. */
export function clockMs(iso: string): string {
  return iso.slice(11, 23);
}

const WHOLE = new Intl.NumberFormat('en-US');

/** `12,345`. */
export function count(value: number): string {
  return WHOLE.format(value);
}

/** `1 key`, `12 keys`. */
export function countText(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}
